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
      sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p') help --help --version" -- "$current")
    return
  fi
  if [[ $command == run || $command == stat || $command == top ]]; then
    # Behind the program that is profiled, or --, its own words follow.
    for ((i = 2; i < COMP_CWORD; i++)); do
      case ${COMP_WORDS[i]} in
        --) compopt -o default; return ;;
      esac
    done
  fi
  local values=
  case $previous in
    --color) values="always auto never" ;;
    --mode) values="shadow burst"; [[ $command == run ]] && values+=" full" ;;
    --engine) values="auto translator emulator step" ;;
    --profile) values="edge call method path value latency address hazard waste stream all none" ;;
    --path-scope) values="inter intra" ;;
    --hotlist) values="sample tnv" ;;
    --value-context) values="none call" ;;
    --cpu-features) values="native host baseline x86-64-v2 x86-64-v3 x86-64-v4" ;;
    --clock) values="virtual real" ;;
    --within) values="marks" ;;
    --input-log) values="auto on off" ;;
    --time) values="clock looks off" ;;
    --converge | --prefill) values="on off" ;;
    --view) values="both source code" ;;
    --sort) values="time instructions self total calls loops name" ;;
    --baseline) values=$("$program" baseline list 2>/dev/null | cut -d ' ' -f 1) ;;
    --cache | --source-root | --baseline-dir) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
    --format)
      case $command in
        export) values=$("$program" export --list 2>/dev/null | cut -d ' ' -f 1) ;;
        check) values="text markdown github sarif junit" ;;
      esac
      ;;
  esac
  if [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
    return
  fi
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("$program" "$command" --help 2>/dev/null |
      sed -n 's/^  \(-[^ ]*\( [^ ][^ ]*\)*\).*/\1/p' | tr ' ,' '\n\n' | grep '^-')" -- "$current")
    return
  fi
  [[ $command == baseline ]] && ((COMP_CWORD == 2)) && values="save list"
  if [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
    return
  fi
  [[ $command == ctl ]] && ((COMP_CWORD == 3)) && values="status dump stop set"
  [[ $command == ctl && $previous == set ]] && values="max-overhead= freq= sample-size= values= latency="
  if [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
    return
  fi
  if [[ $command == attach || $command == top || $command == ctl ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(ps -u "$EUID" -o pid= 2>/dev/null)" -- "$current")
    return
  fi
  compopt -o default
  if [[ $command == annotate ]]; then
    _shadowprof_functions "$program"
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}

# Functions of the profile that is named before, or of shadowprof.json. Their names have colons, which
# end words for bash: what stands before the last one of them on the line is not repeated.
_shadowprof_functions()
{
  local typed=${COMP_LINE:0:COMP_POINT} file=shadowprof.json word name
  typed=${typed##* }
  local before=${typed%"${typed##*:}"}
  [[ $COMP_WORDBREAKS == *:* ]] || before=
  for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
    [[ -f $word ]] && file=$word
  done
  [[ -f $file ]] || return
  while IFS= read -r name; do
    printf -v name %q "$name"
    [[ $name == "$typed"* ]] && COMPREPLY+=("${name#"$before"}")
  done < <("$1" annotate --list "$file" 2>/dev/null)
}
complete -F _shadowprof shadowprof
