# Shared by up, down and server. Each server has a folder in the data directory:
#   run    starts it in the foreground      port   where it listens
#   pid    process id and start time        log    its output
# A process is ours only while both its id and its start time are those recorded.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=${STILLHERE_LOCAL_DATA:-$here/.data}
library=${STILLHERE_LOCAL_KAFKA:-$here/.kafka}

die() { echo "${0##*/}: $*" >&2; exit 1; }
note() { echo "${0##*/}: $*" >&2; }

# started_at PID: when the process was started, as something to compare; fails
# when there is none.
started_at() {
  local stat
  if [ -d /proc/self ]; then
    { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
    # The name, in brackets, may have blanks; the start is the 20th field after it.
    set -- ${stat##*) }
    [ "$1" != Z ] || return 1
    echo "${20}"
  else
    stat=$(ps -o lstart= -p "$1") && [ -n "$stat" ] && echo "${stat// /_}"
  fi
}

# running NAME: prints the process id of a server of ours that lives.
running() {
  local pid start
  read -r pid start 2>/dev/null <"$data/$1/pid" || return 1
  [ "$(started_at "$pid")" = "$start" ] && echo "$pid"
}

# family PID: the process and its children.
family() {
  local stat fields
  echo "$1"
  if [ -d /proc/self ]; then
    for stat in /proc/[0-9]*/stat; do
      { stat=$(<"$stat"); } 2>/dev/null || continue
      fields=(${stat##*) })
      [ "${fields[1]}" != "$1" ] || echo "${stat%% *}"
    done
  else
    ps -A -o pid=,ppid= | awk -v of="$1" '$2 == of { print $1 }'
  fi
}

# launch NAME: starts a server in a session of its own.
launch() {
  local pid own_session=nohup
  command -v setsid >/dev/null && own_session=setsid
  $own_session "$data/$1/run" </dev/null >>"$data/$1/log" 2>&1 8>&- 9>&- &
  pid=$!
  disown
  echo "$pid $(started_at "$pid")" >"$data/$1/pid"
}

# start NAME SECONDS: starts a server that does not run, and waits until it answers.
start() {
  local name=$1 deadline=$((SECONDS + $2)) pid
  running "$name" >/dev/null || launch "$name"
  until pid=$(running "$name") && answers "$name" 2>/dev/null && running "$name" >/dev/null; do
    [ $SECONDS -lt $deadline ] || die "$name does not answer; it said last:
$(tail -n 15 "$data/$name/log")"
    # After a kill, Postgres waits for its predecessor's shared memory.
    [ -n "$pid" ] || { sleep 0.3; launch "$name"; }
    sleep 0.1
  done
}

# stop NAME SIGNAL SECONDS: ends a server and waits until it is gone.
stop() {
  local name=$1 deadline=$((SECONDS + $3)) pid
  if pid=$(running "$name"); then
    kill -CONT $(family "$pid") 2>/dev/null || true
    if [ "$2" = KILL ]; then kill -KILL $(family "$pid") 2>/dev/null || true; else kill "-$2" "$pid" 2>/dev/null || true; fi
    while running "$name" >/dev/null; do
      [ $SECONDS -lt $deadline ] || die "$name (process $pid) does not end"
      sleep 0.05
    done
  fi
  rm -f "$data/$name/pid"
}

# servers: the names of all servers of the data directory, Kafka's first.
servers() {
  local folder
  for folder in "$data"/kafka-* "$data/redis" "$data/postgres"; do
    [ ! -e "$folder/run" ] || echo "${folder##*/}"
  done
}

# answers NAME: whether the server is usable.
answers() {
  local port
  port=$(<"$data/$1/port")
  case $1 in
  kafka-*) kafka_answers "$port" ;;
  redis) [ "$(talk "$port" 'PING\r\n' 5)" = 2b504f4e47 ] ;; # +PONG
  postgres) "$(<"$data/postgres/bin")/pg_isready" -q -t 3 -h 127.0.0.1 -p "$port" ;;
  esac
}

# talk PORT BYTES [COUNT]: sends bytes (as for printf) and prints the answer in
# hex: its first COUNT bytes, or as many as its first four say.
talk() (
  hex() { timeout 3 head -c "$1" <&3 | od -An -v -tx1 | tr -d ' \n'; }
  exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
  printf "$2" >&3
  if [ -n "${3:-}" ]; then hex "$3"; else
    size=$(hex 4)
    [ ${#size} = 8 ] && hex $((16#$size))
  fi
)
command -v timeout >/dev/null || timeout() { shift; "$@"; }

# kafka_answers PORT: whether the broker knows the coordinators of groups and of
# transactions, and the latter is ready. Asking also makes their topics.
kafka_answers() {
  local answer length port
  # FindCoordinator v2, for group "up".
  settled "$(talk "$1" '\0\0\0\21\0\12\0\2\0\0\0\1\0\2up\0\2up\0')" || return 1
  # The same for transactional id "up". The answer: correlation, throttle, error,
  # message, node, host, port.
  answer=$(talk "$1" '\0\0\0\21\0\12\0\2\0\0\0\1\0\2up\0\2up\1')
  settled "$answer" || return 1
  [ "${answer:16:4}" = 0000 ] || return 0 # e.g. no permission: it works, not for us
  answer=${answer:20}
  for length in message node; do
    [ $length = node ] && answer=${answer:8}
    length=$((16#${answer:0:4}))
    answer=${answer:$((length == 65535 ? 4 : 4 + 2 * length))}
  done
  port=$((16#${answer:0:8}))
  # InitProducerId v1 of transactional id "up".
  settled "$(talk "$port" '\0\0\0\24\0\26\0\1\0\0\0\1\0\2up\0\2up\0\0\23\210')"
}

# settled ANSWER: whether its error, after correlation and throttle, is no matter
# of waiting. No answer and -1 are; so are 7 (timed out), 14, 15, 16 (coordinator
# loading, unknown, elsewhere) and 51 (another one asks).
settled() {
  case ${1:16:4} in '' | ffff | 0007 | 000e | 000f | 0010 | 0033) return 1 ;; esac
}
