// The script of completion.cpp, with marks for what is made of the parser: @WORDS@.
#pragma once

namespace gradsync::cli {

inline constexpr const char* kBashScript = R"sh(# Completion of gradsync for bash: source it, as in
#   source <(gradsync completion bash)
# Made by gradsync from its own parser.

# _gradsync_words COMMAND: what may stand behind it: its commands and options.
_gradsync_words() {
  case "$1" in
@WORDS@  esac
}

# _gradsync_values "COMMAND OPTION": what that option takes; "COMMAND " is for its arguments. Status 1:
# no such option.
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

# _gradsync_names PROGRAM WHAT: the first word of each line of a list, without placeholders.
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

}  // namespace gradsync::cli
