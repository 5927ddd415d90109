# Runs commands for one client over stdin (requests) and stdout (answers). POSIX sh: dash, busybox ash, bash.
#
# Requests, one line each, some followed by a payload; other lines are ignored:
#   init SECRET LINES             first, and once: evaluate LINES lines (exports for all commands)
#   run ID BLOCKS LINES LINES     prelude lines (evaluated before the command), command lines
#   put NAME BYTES                store BYTES raw bytes as NAME.$$ in the spool
#   kill ID SIGNAL | status ID | peek ID | forget NAME...
# Answers: what commands write, as it comes, and between it marks, lines that begin with the secret:
#   hello EXACT SETSID SPOOL      EXACT: 1 when `head -c` takes no byte too many from a pipe
#   end ID CODE OOM CUT           the command's shell ended; all that it wrote before came before this mark
#   begin ID | resume ID          what came before is not this command's; its output follows (resume: all of it again)
#   unknown ID | refused ID | lacks TOOL...
#
# Two loops: `control` reads requests and answers at once, `worker` runs commands one after the other, in the
# foreground, since a shell makes its background commands ignore SIGINT and SIGQUIT, and their children with them.
#
# A command writes into a pipe. tee copies it to the client, and to a file for the case that the stream breaks. As a rule
# the pipe closes when the command's shell ends, and the mark follows. Background children may hold the pipe for as long
# as they like: then the mark goes through it, behind all that was written before.
# In the spool: ID (exists once the command was begun: this is what makes it run once; it names the driver), ID.shell,
# ID.pid (its group), ID.tee, ID.out, ID.code, ID.cut (its output went past the cap), ID.inband (its mark went into the
# pipe), ID.closed (it is answered, nothing of it goes to the stream any more); driver (the newest one), previous.$$.
exec 3>&1 5>&2 >/dev/null 2>&1 # 5 stays open: containerd closes stdin once nobody holds the stream's stderr
unset ENV

for spool in ${SWEYARD_SPOOL:+"$SWEYARD_SPOOL"} /dev/shm/.sweyard /tmp/.sweyard /var/tmp/.sweyard; do
  mkdir -p -m 700 "$spool" && [ -w "$spool" ] && break
done

mark() { printf '\n-%s-%s\n' "$secret" "$*" >&3; }

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

own_pid() { read -r pid rest </proc/self/stat && echo "$pid" >"$1"; }

leader() { # ID: the command and, after it, its mark; stdout is the pipe
  own_pid "$spool/$1.shell"
  oom_kills
  before=$kills
  (
    own_pid "$spool/$1.pid"
    export SWEYARD_COMMAND="$1"
    launch='sh -c'
    eval "$prelude"
    exec $newsession $launch "$command"
  ) </dev/null 2>&1 3>&- 5>&-
  code=$?
  oom_kills
  echo "$code $((kills - before))" >"$spool/$1.code"
  read -r pid <"$spool/$1.pid" && kill -s 0 -- "-$pid" || return
  : >"$spool/$1.inband"
  inband_mark "$1" "$code $((kills - before))"
}

inband_mark() { # ID RESULT
  printf '\n-%s-end %s %s 0\n' "$secret" "$1" "$2"
}

finish() { # ID CUT: whoever makes the file says how the command ended; without a code its shell was killed
  set -C
  true >"$spool/$1.closed" || return
  read -r result <"$spool/$1.code" || result='137 0'
  mark end "$1" "$result" "$2"
}

peek() { # ID: has it ended while what left its group holds the pipe?
  [ -e "$spool/$1.code" ] && ! [ -e "$spool/$1.closed" ] || return
  if [ -e "$spool/$1.cut" ]; then
    finish "$1" 1
  elif ! [ -e "$spool/$1.inband" ]; then
    : >"$spool/$1.inband"
    read -r pid <"$spool/$1.tee" && read -r result <"$spool/$1.code" && inband_mark "$1" "$result" >"/proc/$pid/fd/0"
  fi
}

collector() { # ID BLOCKS: copies the pipe, fd 6; past BLOCKS * 512 bytes it only empties it
  ulimit -c 0
  ulimit -S -f "$2"
  trap '' PIPE
  if [ $reopens = 1 ]; then
    tee /dev/fd/3 <&6 >"$spool/$1.out" 5>&- 6>&- &
  else
    tee "$spool/$1.out" <&6 >&3 3>&- 5>&- 6>&- &
  fi
  echo $! >"$spool/$1.tee"
  wait $!
  case $? in
  0) # the pipe is closed
    if [ -e "$spool/$1.inband" ] && is_in_file "$1"; then : >"$spool/$1.closed"; else finish "$1" 0; fi
    return
    ;;
  138) # USR1: the stream broke; the file goes on alone
    cat <&6 >>"$spool/$1.out" 3>&- 5>&- 6>&- && : >"$spool/$1.closed" && return
    : >"$spool/$1.cut"
    ;;
  143) : >"$spool/$1.closed" ;; # TERM: the next command needs the stream
  *)
    : >"$spool/$1.cut"
    [ -e "$spool/$1.inband" ] && (finish "$1" 1)
    ;;
  esac
  cat <&6 >/dev/null 3>&- 5>&- 6>&-
  finish "$1" 1
}

is_in_file() { grep -q -e "^-$secret-end $1 " "$spool/$1.out"; }

worker() {
  read -r previous <"$spool/previous.$$" || previous=
  while read -r id blocks a b; do
    lines "$a"; prelude=$text
    lines "$b"; command=$text
    [ -z "$previous" ] || [ -e "$spool/$previous.closed" ] || take_stream "$previous" "$id"
    previous=$id
    echo "$id" >"$spool/previous.$$"
    leader "$id" | { collector "$id" "$blocks" <&6 & } 6<&0
  done
}

take_stream() { # PREVIOUS ID: background children of the previous command may still write
  tries=0
  until [ -e "$spool/$1.closed" ] || [ $tries = 500 ]; do
    read -r pid <"$spool/$1.tee" && kill -s TERM "$pid"
    sleep 0.01
    tries=$((tries + 1))
  done
  mark begin "$2"
}

begin() { # ID: true if nobody began it before
  set -C
  echo $$ >"$spool/$1" || { mkdir -p -m 700 "$spool" && echo $$ >"$spool/$1"; }
  begun=$?
  set +C
  return $begun
}

lives() { # FILE: the process whose number is in it
  [ -s "$1" ] && read -r pid <"$1" && kill -0 "$pid"
}

runs() { # ID: neither its mark is written nor are its processes gone; it gets 3 s to start
  [ -e "$spool/$1.code" ] && return 1
  [ -s "$spool/$1.shell" ] || { tries=$((tries + 1)); [ $tries -lt 30 ]; return; }
  lives "$spool/$1.shell" || lives "$spool/$1.pid"
}

detach() { # ID: tee may wait for the stream that broke; what it has read is in the file, the rest goes there without it
  [ -e "$spool/$1.closed" ] || { read -r pid <"$spool/$1.tee" && kill -s USR1 "$pid"; }
}

is_answered() { # ID: what copies its pipe to this stream has sent the mark, or will
  waits=0
  until [ -e "$spool/$1.closed" ]; do
    lives "$spool/$1.tee" || { sleep 0.3; [ -e "$spool/$1.closed" ]; return; }
    [ -e "$spool/$1.code" ] && return
    [ $waits = 20 ] && return 1
    sleep 0.1
    waits=$((waits + 1))
  done
}

resume() { # ID: all of its output once it has ended; its first answer may have gone to a stream that broke
  # A request may lie in a broken stream until a newer driver has served it: that one's answer must not be taken.
  read -r newest <"$spool/driver" && [ "$newest" = $$ ] || return
  read -r owner <"$spool/$1"
  tries=0 waits=0
  while runs "$1"; do
    sleep 0.1
    waits=$((waits + 1))
    [ $waits = 20 ] && [ "$owner" != $$ ] && detach "$1"
  done
  [ "$owner" = $$ ] && is_answered "$1" && return
  read -r code oom <"$spool/$1.code" || { code=137 oom=0; }
  tries=0 cut=0
  until [ -e "$spool/$1.closed" ] || is_in_file "$1" || [ $tries = 40 ]; do
    [ -e "$spool/$1.cut" ] && break
    sleep 0.05
    [ $tries = 20 ] && detach "$1"
    tries=$((tries + 1))
  done
  [ -e "$spool/$1.cut" ] && cut=1
  mark resume "$1"
  cat "$spool/$1.out" >&3
  mark end "$1" "$code" "$oom" "$cut"
}

stop() { # ID SIGNAL: the command's group; by KILL also what left the group, found by its environment
  read -r pid <"$spool/$1.pid" && { kill -s "$2" -- "-$pid" || kill -s "$2" "$pid"; }
  [ "$2" = KILL ] || return
  for found in $(grep -l "SWEYARD_COMMAND=$1" /proc/[0-9]*/environ); do
    found=${found#/proc/}
    kill -s KILL "${found%/environ}"
  done
}

forget() { # NAME...
  names=$*
  set --
  for name in $names; do set -- "$@" "$spool/$name" "$spool/$name".*; done
  rm -f "$@"
}

control() { # what the worker needs goes to stdout
  while read -r verb id a b c d; do
    case $verb in
    run)
      lines $((b + c))
      if begin "$id"; then
        printf '%s %s %s %s\n%s\n' "$id" "$a" "$b" "$c" "$text"
      elif [ -e "$spool/$id" ]; then
        (resume "$id" &)
      else
        mark refused "$id"
      fi
      ;;
    put) head -c "$a" | { cat >"$spool/$id.$$" || { rm -f "$spool/$id.$$"; cat >/dev/null; }; } ;;
    kill) stop "$id" "$a" ;;
    peek) (peek "$id") ;;
    status) [ -e "$spool/$id" ] && (resume "$id" &) || mark unknown "$id" ;;
    forget) forget $id $a $b $c $d ;;
    esac
  done
  : >"$spool/end.$$"
}

command -v setsid && newsession=setsid || newsession=
for memory_events in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control ''; do
  [ -r "$memory_events" ] && break
done
# Where the stream can be opened again, tee writes the file first.
(exec 7>/dev/fd/3) && reopens=1 || reopens=0
exact=$(printf 'ab\nc\n' | { head -c 3 >/dev/null; read -r rest; [ "$rest" = c ] && echo 1 || echo 0; })
read -r _ secret n && lines "$n" && eval "$text" || exit

missing=
for tool in cat grep head mkdir rm sleep tee; do command -v "$tool" || missing="$missing $tool"; done
[ -z "$missing" ] || { mark lacks$missing; exit; }
echo $$ >"$spool/driver"
rm -f "$spool/end.$$"
# A command may kill both loops and leave this shell alive, where it is process 1; then the client is greeted anew.
until [ -e "$spool/end.$$" ]; do
  mark hello "$exact" "${newsession:-none}" "$spool"
  control | worker
done
rm -f "$spool/end.$$"
