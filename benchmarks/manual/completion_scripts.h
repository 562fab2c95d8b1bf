// The scripts of completion.cpp, with marks for what is made of the parser: @WORDS@.
//
// bash and zsh share what says which words may follow, and differ in how they ask for it.
#pragma once

namespace gradsync::cli {

inline constexpr const char* kShellTables =
    R"sh(# _gradsync_words COMMAND: what may stand behind it: its commands and options.
_gradsync_words() {
  case "$1" in
@WORDS@  esac
}

# _gradsync_values "COMMAND OPTION": what that takes; "COMMAND " is for its arguments. Status 1: nothing
# that an option takes.
_gradsync_values() {
  case "$1" in
@VALUES@  *) return 1 ;;
  esac
}

_gradsync_is_command() {
  case "$1" in
  @COMMANDS@) return 0 ;;
  esac
  return 1
}

# _gradsync_names PROGRAM WHAT: the first word of each line of a list, but for what stands for others.
_gradsync_names() {
  local name rest
  "$1" list "$2" 2>/dev/null | while read -r name rest; do
    case $name in NxR | FILE.json) ;; *) echo "$name" ;; esac
  done
}

# _gradsync_candidates PROGRAM COMMAND PREVIOUS CURRENT: all that may stand at CURRENT.
_gradsync_candidates() {
  local _gradsync_program=$1
  if [[ $3 == -* ]] && _gradsync_values "$2 $3"; then
    return
  elif [[ $4 == -* ]]; then
    _gradsync_words "$2"
  else
    _gradsync_words "$2" | grep -v '^-'
    _gradsync_values "$2 "
  fi
}
)sh";

inline constexpr const char* kBashScript = R"sh(# Completion of gradsync for bash: source it, as in
#   source <(gradsync completion bash)
# Made by gradsync from its own parser.

@TABLES@
_gradsync() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} key="" word i
  COMPREPLY=()
  # bash divides at "=": --option = value.
  if [[ $current == "=" ]]; then
    current=""
  elif [[ $previous == "=" ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- ]]; then
      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); fi
      return
    fi
    if _gradsync_is_command "${key:+$key }$word"; then key="${key:+$key }$word"; fi
  done
  mapfile -t COMPREPLY < <(compgen -W \
    "$(_gradsync_candidates "${COMP_WORDS[0]}" "$key" "$previous" "$current")" -- "$current")
}

complete -o default -F _gradsync gradsync
)sh";

inline constexpr const char* kZshScript = R"sh(#compdef gradsync
# Completion of gradsync for zsh: put it into a folder of $fpath as _gradsync, or source it, as in
#   source <(gradsync completion zsh)
# Made by gradsync from its own parser.

@TABLES@
_gradsync() {
  local key="" word
  local -a candidates
  integer i
  for ((i = 2; i < CURRENT; i++)); do
    word=${words[i]}
    if [[ $word == -- ]]; then
      shift i words
      ((CURRENT -= i))
      _normal
      return
    fi
    if _gradsync_is_command "${key:+$key }$word"; then key="${key:+$key }$word"; fi
  done
  candidates=(${(f)"$(_gradsync_candidates "${words[1]}" "$key" "${words[CURRENT - 1]}" \
    "${words[CURRENT]}")"})
  compadd -a candidates || _files
}

if [[ $funcstack[1] == _gradsync ]]; then
  _gradsync "$@"
else
  compdef _gradsync gradsync
fi
)sh";

inline constexpr const char* kFishScript = R"sh(# Completion of gradsync for fish: source it, as in
#   gradsync completion fish | source
# Made by gradsync from its own parser.

function __gradsync_names
    gradsync list $argv[1] 2>/dev/null | string match -r '^[^ ]+' | string match -v -r '^(NxR|FILE)'
end

# Whether the commands on the line so far are these, and no others of gradsync's.
function __gradsync_at
    set -l key
    for word in (commandline -opc)[2..]
        test "$word" = --; and return 1
        set -l longer (string join -- ' ' $key $word)
        contains -- $longer @COMMANDS@; and set key $longer
    end
    test "$key" = "$argv"
end

complete -c gradsync -f -n '__gradsync_at ""'
)sh";

}  // namespace gradsync::cli
