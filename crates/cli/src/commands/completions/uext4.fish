# Completion of uext4 for fish: the command itself says what fits, files inside images too.
function __uext4_candidates
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete -- $words 2>/dev/null
end
complete -c uext4 -f -a '(__uext4_candidates)'
