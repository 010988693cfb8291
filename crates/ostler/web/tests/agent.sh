#!/bin/bash
# A fake agent in a real terminal: it runs real hooks and asks a question when told to.
# Arguments: session id, what it waits for (or nothing), title.
export CLAUDE_PID=$$
id=$1 asks=$2 title=$3
transcript=$HOME/.claude/projects/-$(basename "$PWD")/$id.jsonl
hook() {
    printf '{"session_id":"%s","cwd":"%s","transcript_path":"%s"%s}' "$id" "$PWD" "$transcript" "$2" |
        "$OSTLER" hook claude-code "$1"
}
ask() {
    hook PermissionRequest ",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"$1\"}"
    printf '\033[2J\033[H\033[1m● Update(src/auth/token.rs)\033[0m\r\n  ⎿ \033[32m14 lines changed\033[0m\r\n\r\n'
    printf '╭──────────────────────────────────────────────────────────────╮\r\n'
    printf '│ \033[1mBash command\033[0m                                                 │\r\n'
    printf '│   \033[36m%-58s\033[0m │\r\n' "$1"
    printf '│ Do you want to proceed?                                      │\r\n'
    printf '│ \033[34m❯ 1. Yes\033[0m   2. Yes, always   3. No                            │\r\n'
    printf '╰──────────────────────────────────────────────────────────────╯\r\n'
}
hook SessionStart ',"source":"startup"'
hook UserPromptSubmit ",\"prompt\":\"$title\""
printf '\033[38;2;224;169;91m✻ %s\033[0m\r\n\r\n' "$title"
[ -n "$asks" ] && ask "$asks"
stty -echo
while read -r -n 1 key; do
    case $key in
    1) hook PostToolUse ''; hook Stop ''; printf 'you said yes\r\n> ' ;;
    q) ask "rm -r target" ;;
    w) hook UserPromptSubmit ',"prompt":"go on"'; printf 'working\r\n' ;;
    s) hook Stop ''; printf 'done\r\n> ' ;;
    *) printf '%s' "$key" ;;
    esac
done
