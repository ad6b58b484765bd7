# Completion of uext4 for bash: the command itself says what fits, files inside images too.
_uext4() {
    local word i words=() line=$COMP_LINE prefix candidate
    # Bash splits words at colons; what is written together is one word.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 1)) && [[ $word == :* || ${words[-1]} == *: ]] && [[ $line == *"${words[-1]}$word"* ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    word=${words[-1]}
    # Only what follows the last colon is replaced.
    prefix=
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then prefix=${word%"${word##*:}"}; fi
    COMPREPLY=()
    while IFS= read -r candidate; do
        candidate=${candidate#"$prefix"}
        [[ $candidate == */ || $candidate == *: ]] && compopt -o nospace
        printf -v candidate %q "$candidate"
        COMPREPLY+=("$candidate")
    done < <("${words[0]}" complete -- "${words[@]}" 2>/dev/null)
}
complete -F _uext4 uext4
