# bash completion of stillhere: source <(stillhere completion bash)
_stillhere() {
  local word about
  COMPREPLY=()
  while IFS=$'\t' read -r word about; do
    if [ "$word" = :files ]; then
      compopt -o default 2>/dev/null
      COMPREPLY=()
      return
    fi
    COMPREPLY+=("$word")
  done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _stillhere stillhere
