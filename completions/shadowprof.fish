# SPDX-License-Identifier: MIT
#
# Completion for fish. Commands and options are asked of the program itself.
function __shadowprof_commands
    shadowprof --help 2>/dev/null | string match -rg '^  ([a-z]+ +.*)' | string replace -r ' +' \t
end

function __shadowprof_command
    set -l words (commandline -opc)
    test (count $words) -gt 1; and echo $words[2]
end

function __shadowprof_options
    set -l command (__shadowprof_command)
    test -n "$command"; or return
    shadowprof $command --help 2>/dev/null | string match -rg '^  (-\S+(?: \S+)*)' |
        string split -n ' ' | string split ',' | string match -- '-*'
end

function __shadowprof_is
    contains -- "$(__shadowprof_command)" $argv
end

# Of the profile that is named before, or of shadowprof.json.
function __shadowprof_functions
    set -l file shadowprof.json
    for word in (commandline -opc)[3..]
        test -f "$word"; and set file $word
    end
    test -f $file; and shadowprof annotate --list $file 2>/dev/null
end

complete -c shadowprof -n 'test (count (commandline -opc)) -eq 1' -f -a '(__shadowprof_commands)'
complete -c shadowprof -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__shadowprof_options)'
complete -c shadowprof -n '__shadowprof_is attach top' -f -a '(__fish_complete_pids)'
complete -c shadowprof -n '__shadowprof_is ctl; and test (count (commandline -opc)) -eq 2' -f -a '(__fish_complete_pids)'
complete -c shadowprof -n '__shadowprof_is ctl; and test (count (commandline -opc)) -eq 3' -f -a 'status dump stop set'
complete -c shadowprof -n '__shadowprof_is ctl; and test (count (commandline -opc)) -eq 4' -f -a 'max-overhead= freq= sample-size= values= latency='
complete -c shadowprof -l color -x -a 'always auto never'
complete -c shadowprof -n '__shadowprof_is run' -l mode -x -a 'shadow burst full'
complete -c shadowprof -n '__shadowprof_is attach' -l mode -x -a 'shadow burst'
complete -c shadowprof -n '__shadowprof_is run stat' -l clock -x -a 'virtual real'
complete -c shadowprof -n '__shadowprof_is run stat' -l within -x -a 'marks'
complete -c shadowprof -n '__shadowprof_is run stat' -l cpu-features -x -a 'native host baseline x86-64-v2 x86-64-v3 x86-64-v4'
complete -c shadowprof -n '__shadowprof_is run attach' -l engine -x -a 'auto translator emulator step'
complete -c shadowprof -n '__shadowprof_is run attach' -l profile -x -a 'edge call method path value latency address hazard waste stream all none'
complete -c shadowprof -n '__shadowprof_is run attach' -l path-scope -x -a 'inter intra'
complete -c shadowprof -n '__shadowprof_is run attach' -l hotlist -x -a 'sample tnv'
complete -c shadowprof -n '__shadowprof_is run attach' -l value-context -x -a 'none call'
complete -c shadowprof -n '__shadowprof_is run attach' -l input-log -x -a 'auto on off'
complete -c shadowprof -n '__shadowprof_is run attach' -l time -x -a 'clock looks off'
complete -c shadowprof -n '__shadowprof_is run attach' -l prefill -x -a 'on off'
complete -c shadowprof -n '__shadowprof_is run attach' -l converge -x -a 'on off'
complete -c shadowprof -n '__shadowprof_is run attach' -l cache -x -a '(__fish_complete_directories)'
complete -c shadowprof -n '__shadowprof_is check baseline' -l baseline-dir -x -a '(__fish_complete_directories)'
complete -c shadowprof -n '__shadowprof_is check' -l baseline -x -a '(shadowprof baseline list 2>/dev/null | string split -f1 " ")'
complete -c shadowprof -n '__shadowprof_is baseline; and test (count (commandline -opc)) -eq 2' -f -a 'save list'
complete -c shadowprof -n '__shadowprof_is check' -l source-root -x -a '(__fish_complete_directories)'
complete -c shadowprof -n '__shadowprof_is check' -l format -x -a 'text markdown github sarif junit'
complete -c shadowprof -n '__shadowprof_is annotate' -a '(__shadowprof_functions)'
complete -c shadowprof -n '__shadowprof_is annotate' -l view -x -a 'both source code'
complete -c shadowprof -n '__shadowprof_is report' -l sort -x -a 'time instructions self total calls loops name'
complete -c shadowprof -n '__shadowprof_is export' -l format -x -a '(shadowprof export --list 2>/dev/null | string replace -r " +" \t)'
