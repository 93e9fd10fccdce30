#compdef stillhere
# zsh completion of stillhere: source <(stillhere completion zsh), after compinit
_stillhere() {
  local word about
  local -a found
  while IFS=$'\t' read -r word about; do
    if [[ $word == :files ]]; then
      _files
      return
    fi
    found+=("${word//:/\\:}:$about")
  done < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  _describe -V stillhere found
}
if [[ $funcstack[1] == _stillhere ]]; then
  _stillhere "$@"
else
  compdef _stillhere stillhere
fi
