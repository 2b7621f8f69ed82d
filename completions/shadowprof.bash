# SPDX-License-Identifier: MIT
#
# Completion for bash. Commands and options are asked of the program itself, so they are those of
# the version that is installed.
_shadowprof()
{
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$("$program" --help 2>/dev/null |
      sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p') --help --version" -- "$current")
    return
  fi
  if [[ $command == run ]]; then
    # Behind the program that is profiled, or --, its own words follow.
    for ((i = 2; i < COMP_CWORD; i++)); do
      case ${COMP_WORDS[i]} in
        --) compopt -o default; return ;;
      esac
    done
  fi
  case $previous in
    --color) mapfile -t COMPREPLY < <(compgen -W "always auto never" -- "$current"); return ;;
    --mode) mapfile -t COMPREPLY < <(compgen -W "shadow burst full" -- "$current"); return ;;
    --view) mapfile -t COMPREPLY < <(compgen -W "both source code" -- "$current"); return ;;
    --sort) mapfile -t COMPREPLY < <(compgen -W "self total calls loops name" -- "$current"); return ;;
    --format)
      if [[ $command == export ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$program" export --list 2>/dev/null |
          cut -d ' ' -f 1)" -- "$current")
        return
      fi
      ;;
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("$program" "$command" --help 2>/dev/null |
      sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr ',' '\n')" -- "$current")
    return
  fi
  if [[ $command == attach ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(ps -u "$EUID" -o pid= 2>/dev/null)" -- "$current")
    return
  fi
  compopt -o default
}
complete -F _shadowprof shadowprof
