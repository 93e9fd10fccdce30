# fish completion of stillhere: stillhere completion fish | source
function __stillhere_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] complete -- $words[2..-1] 2>/dev/null)
    if string match -q -- ':files*' $found
        __fish_complete_path (string replace -r -- '^--[^=]*=' '' $words[-1])
        return
    end
    printf '%s\n' $found
end
complete -c stillhere -f -a '(__stillhere_complete)'
