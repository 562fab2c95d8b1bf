"""python -m gradsync: the installed command."""

from gradsync.program import main

main()
