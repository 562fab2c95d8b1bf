"""Pages of which a part is made: what stands between two lines of their own."""


def between(page, marks, lines):
    """Returns the text of a page with `lines` between its marks: (begin, end), a line each."""
    begin, end = marks
    head, rest = page.split(begin + "\n")
    return head + "\n".join([begin, *lines, end]) + rest.split(end)[1]
