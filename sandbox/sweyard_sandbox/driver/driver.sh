# Runs commands for one client over stdin (requests) and stdout (answers). POSIX sh: dash, busybox ash, bash.
#
# Requests, one line each, some followed by a payload; blank lines are ignored:
#   init LINES                          first, and once: evaluate LINES lines (exports for all commands)
#   run ID TOKEN BLOCKS LINES LINES     prelude lines (evaluated before the command), command lines
#   put NAME BYTES                      store BYTES raw bytes as NAME in the spool
#   kill ID SIGNAL | settle ID TOKEN | status ID TOKEN | forget NAME...
# Answers:
#   hello EXACT SETSID SPOOL            EXACT: 1 when `head -c` takes no byte too many from a pipe
#   exit ID CODE OOM                    the command's shell ended
#   body ID CUT, then raw bytes, then the end mark of TOKEN
#   unknown ID | refused ID
#
# Two loops: `control` reads requests and answers at once, `worker` runs commands one after the other, in the
# foreground, since a shell makes its background commands ignore SIGINT and SIGQUIT, and their children with them.
#
# A command's files in the spool: ID (exists once it was begun: this is what makes it run once), ID.pid, ID.out, ID.code.
# Its output passes a pipe into ID.out. When its shell ends, a mark goes into the same pipe, so all that it wrote before
# lies before the mark, even while a background child still holds the pipe.
exec 3>&1 5>&2 >/dev/null 2>&1 # 5 stays open: containerd closes stdin once nobody holds the stream's stderr
unset ENV

for spool in "${SWEYARD_SPOOL:-/tmp/.sweyard}" /var/tmp/.sweyard /dev/shm/.sweyard; do
  mkdir -p -m 700 "$spool" && [ -w "$spool" ] && break
done
mkfifo "$spool/turn.$$"
exec 4<>"$spool/turn.$$"
rm -f "$spool/turn.$$"
echo >&4

# Several processes answer on one stream: whoever holds the one line in the fifo may write.
say() { read -r _ <&4; printf "$@" >&3; echo >&4; }

body() { # ID TOKEN CUT
  read -r _ <&4
  printf 'body %s %s\n' "$1" "$3" >&3
  cat "$spool/$1.out" >&3
  printf '\n-end-%s\n' "$2" >&3
  echo >&4
}

lines() { # N: the next N lines of the stream into $text
  text= n=$1
  while [ "$n" -gt 0 ]; do
    IFS= read -r line || exit
    text="$text$line
"
    n=$((n - 1))
  done
  text=${text%?}
}

oom_kills() { # into $kills
  kills=0
  [ -n "$memory_events" ] || return
  while read -r key value; do [ "$key" = oom_kill ] && kills=$value; done <"$memory_events"
}

leader() { # ID TOKEN: the command and, after it, the mark; stdout is the output pipe
  oom_kills
  before=$kills
  (
    read -r pid rest </proc/self/stat
    echo "$pid" >"$spool/$1.pid"
    export SWEYARD_COMMAND="$1"
    launch='sh -c'
    eval "$prelude"
    exec $newsession $launch "$command"
  ) </dev/null 2>&1 3>&- 4>&- 5>&-
  code=$?
  oom_kills
  printf '\n-mark-%s\n' "$2"
  echo "$code $((kills - before))" >"$spool/$1.code"
  say 'exit %s %s %s\n' "$1" "$code" "$((kills - before))"
}

collector() { # ID TOKEN BLOCKS: keeps the output up to BLOCKS * 512 bytes and drops the rest
  cut=0
  ulimit -c 0
  ulimit -S -f "$3"
  cat 3>&- 4>&- 5>&- >"$spool/$1.out" || {
    cut=1
    : >"$spool/$1.cut"
    cat 3>&- 4>&- 5>&- >/dev/null
  }
  [ -e "$spool/$1.sent" ] || body "$1" "$2" $cut
}

worker() {
  while read -r id token blocks a b; do
    lines "$a"; prelude=$text
    lines "$b"; command=$text
    leader "$id" "$token" | { collector "$id" "$token" "$blocks" <&6 & } 6<&0
  done
}

begin() { # ID: true if nobody began it before
  set -C
  true >"$spool/$1" || { mkdir -p -m 700 "$spool" && true >"$spool/$1"; }
  begun=$?
  set +C
  return $begun
}

settle() { # ID TOKEN: answer without waiting for background children that hold the pipe
  tries=0
  until [ -e "$spool/$1.cut" ] || grep -q -e "^-mark-$2\$" "$spool/$1.out" || [ $tries = 100 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  : >"$spool/$1.sent"
  [ -e "$spool/$1.cut" ] && body "$1" "$2" 1 || body "$1" "$2" 0
}

lives() { # ID: its shell has not ended, as far as can be seen; it gets 2 s to start
  [ -e "$spool/$1.code" ] && return 1
  [ -e "$spool/$1.pid" ] || { tries=$((tries + 1)); [ $tries -lt 20 ]; return; }
  read -r pid <"$spool/$1.pid" && kill -0 "$pid"
}

status() { # ID TOKEN: after a reconnect, when the answer may have gone to the stream that broke
  if ! [ -e "$spool/$1" ]; then
    say 'unknown %s\n' "$1"
    return
  fi
  (
    (
      tries=0
      while lives "$1"; do sleep 0.1; done
      [ -e "$spool/$1.code" ] || sleep 0.2
      [ -e "$spool/$1.code" ] && read -r code killed <"$spool/$1.code" && say 'exit %s %s %s\n' "$1" "$code" "$killed"
      settle "$1" "$2"
    ) &
  )
}

stop() { # ID SIGNAL: the command's group; by KILL also what left the group, found by its environment
  read -r pid <"$spool/$1.pid" && { kill -s "$2" -- "-$pid" || kill -s "$2" "$pid"; }
  [ "$2" = KILL ] || return
  for found in $(grep -l "SWEYARD_COMMAND=$1" /proc/[0-9]*/environ); do
    found=${found#/proc/}
    kill -s KILL "${found%/environ}"
  done
}

command -v setsid && newsession=setsid || newsession=
for memory_events in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control ''; do
  [ -r "$memory_events" ] && break
done
exact=$(printf 'ab\nc\n' | { head -c 3 >/dev/null; read -r rest; [ "$rest" = c ] && echo 1 || echo 0; })
read -r _ id && lines "$id" && eval "$text" || exit

control() { # requests for the worker go to stdout
  rm -f "$spool/end.$$"
  while read -r verb id a b c d; do
    case $verb in
    run)
      lines $((c + d))
      if begin "$id"; then
        printf '%s %s %s %s %s\n%s\n' "$id" "$a" "$b" "$c" "$d" "$text"
      elif [ -e "$spool/$id" ]; then
        status "$id" "$a"
      else
        say 'refused %s\n' "$id"
      fi
      ;;
    put) head -c "$a" | { cat >"$spool/$id" || { rm -f "$spool/$id"; cat >/dev/null; }; } ;;
    kill) stop "$id" "$a" ;;
    settle) (settle "$id" "$a" &) ;;
    status) status "$id" "$a" ;;
    forget) (cd "$spool" && for name in $id $a $b $c $d; do rm -f "$name" "$name".*; done) ;;
    esac
  done
  : >"$spool/end.$$"
}

# A command may kill both loops and leave this shell alive, where it is process 1; then the client is greeted anew.
until [ -e "$spool/end.$$" ]; do
  say 'hello %s %s %s\n' "$exact" "${newsession:-none}" "$spool"
  control | worker
done
rm -f "$spool/end.$$"
