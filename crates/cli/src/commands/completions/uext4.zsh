#compdef uext4
# Completion of uext4 for zsh: the command itself says what fits, files inside images too.
_uext4() {
    local -a candidates open closed
    candidates=("${(@f)$(${words[1]} complete -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    candidates=(${candidates:#})
    open=(${(M)candidates:#*[/:]})
    closed=(${candidates:#*[/:]})
    compadd -S '' -a open
    compadd -a closed
}
if [ "$funcstack[1]" = _uext4 ]; then _uext4 "$@"; else compdef _uext4 uext4; fi
