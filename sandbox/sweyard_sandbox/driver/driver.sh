# Runs commands for one client over stdin (requests) and stdout (answers). POSIX sh: dash, busybox ash, bash.
#
# Requests, one line each, some followed by a payload; other lines are ignored:
#   init SECRET LINES             first, and once: evaluate LINES lines (exports for all commands)
#   run ID BLOCKS LINES           LINES lines that set $prelude (evaluated before the command), $command, and $words: 1
#                                 when the command is but a program's name and its arguments
#   put NAME BYTES                store BYTES raw bytes as NAME.$$ in the spool
#   kill ID SIGNAL | status ID | forget NAME...
# Answers: what commands write, as it comes, and between it marks, lines that begin with the secret:
#   hello EXACT SETSID SPOOL      EXACT: 1 when `head -c` takes no byte too many from a pipe
#   end ID CODE OOM CUT           the command's shell ended; all that it wrote before came before this mark
#   begin ID | resume ID          what came before is not this command's; its output follows (resume: all of it again)
#   unknown ID | refused ID | dropped ID (it was not begun, and never will be) | lacks TOOL...
#
# A fork costs more than all else, so a command is one fork: of `serve`, a shell in a session of its own that runs one
# command after the other in the foreground (a shell makes its background commands ignore SIGINT and SIGQUIT). All write
# into one pipe. tee copies it to the client, and to a file for the case that the stream breaks, which is emptied before
# each command. The mark goes through the pipe too, behind all that was written before. `control` meanwhile reads
# requests and answers at once.
#
# Such a generation of serve, pipe and tee ends, and the next command gets a new one, when a background child of a command
# still holds the pipe, when a signal to a command's group killed serve, and when output went past the cap: then
# tee dies of its file's limit, and the rest is read and dropped.
#
# In the spool, for a command: ID (exists once the command was begun: this is what makes it run once; it names the driver),
# ID.run, ID.code, ID.dead (it must not begin any more). For a generation, named g and its first command: g.now (the
# command), g.serve, g.group, g.collector, g.tee (processes), g.out, g.next (a request that it leaves to the next one),
# g.cut (tee is gone before its time: nothing goes through the pipe), g.off (nothing of it goes to the stream any more).
# Besides: driver, generation (the newest ones).

mark() { printf '\n-%s-%s\n' "$secret" "$*" >&3; }

inband_mark() { # ID RESULT: into the pipe
  printf '\n-%s-end %s %s 0\n' "$secret" "$1" "$2"
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

lives() { # FILE: the process whose number is in it
  [ -s "$1" ] && read -r pid <"$1" && kill -0 "$pid"
}

# --- serve: one command after the other ---

serve() {
  unset SWEYARD_DRIVER
  read -r secret && read -r spool && read -r memory_events && read -r generation limit driver id newsession || exit
  exec </dev/null
  # A signal to the command's group comes here too; what is trapped, not ignored, is as usual in the command.
  trap : HUP INT QUIT PIPE ALRM TERM USR1 USR2
  echo $$ >"$spool/$generation.serve"
  echo $$ >"$spool/$generation.group"
  set -- /proc/[0-9]*
  known=" $* "
  while run_command; do
    read -r id blocks <&8 || exit
    if [ "$blocks" != "$limit" ] || [ -e "$spool/$generation.cut" ]; then
      echo "$id $blocks" >"$spool/$generation.next"
      exit
    fi
  done
}

run_command() { # false when the next one needs another pipe
  echo "$id" >"$spool/$generation.now"
  true >"$spool/$generation.out"
  oom_kills
  before=$kills
  if [ -e "$spool/$id.dead" ]; then
    code=137
  else
    . "$spool/$id.run"
    (
      [ "$newsession" ] || own_pid "$spool/$generation.group"
      export SWEYARD_COMMAND="$id"
      launch='sh -c'
      eval "$prelude"
      # As `sh -c` would in the end, without starting one; it has its own words for a program that is not there.
      [ "$words$launch" = '1sh -c' ] && command -v ${command%% *} >/dev/null && exec $command
      exec $launch "$command"
    ) 2>&1 3>&- 8<&-
    code=$?
  fi
  oom_kills
  result="$code $((kills - before))"
  echo "$result" >"$spool/$id.code"
  if [ -e "$spool/$generation.cut" ]; then
    mark end "$id" "$result" 1
    return 1
  fi
  inband_mark "$id" "$result" || mark end "$id" "$result" 1
  ! is_held
}

own_pid() { read -r pid rest </proc/self/stat && echo "$pid" >"$1"; }

is_held() { # does a process that was not there before hold the pipe?
  set -- /proc/[0-9]*
  [ " $* " = "$known" ] && return 1
  for process; do
    case $known in *" $process "*) continue ;; esac
    [ -e "$process" ] || continue
    [ -r "$process/fd" ] || return 0
    for fd in "$process"/fd/*; do
      [ "$fd" = "$process/fd/*" ] && break
      [ -e "$fd" ] && ! [ "$fd" -ef /proc/self/fd/1 ] || return 0 # of another user it may be unknown
    done
  done
  known=" $* "
  return 1
}

[ $# = 0 ] || { serve; exit; }

# --- worker: one generation after the other ---

worker() {
  exec 8<&0
  while next_request; do
    retire
    generation=g$id
    echo "$generation $$" >"$spool/generation"
    echo "$id" >"$spool/$generation.now"
    mark begin "$id"
    oom_kills
    before=$kills
    printf '%s\n' "$secret" "$spool" "$memory_events" "$generation $blocks $$ $id $newsession" |
      SWEYARD_DRIVER=$p $newsession sh -c 'eval "$SWEYARD_DRIVER"' sh - 5>&- |
      { collector "$generation" "$blocks" <&6 8<&- & } 6<&0
    answer_if_killed
  done
}

next_request() { # into $id and $blocks
  [ -n "$generation" ] && read -r id blocks <"$spool/$generation.next" && rm -f "$spool/$generation.next" && return
  read -r id blocks
}

retire() { # the last generation: background children of its last command may still write
  read -r generation owner <"$spool/generation" || return
  tries=0
  until [ "$owner" != $$ ] || [ -e "$spool/$generation.off" ] || [ $tries = 500 ]; do
    [ -s "$spool/$generation.collector" ] && ! lives "$spool/$generation.collector" && break
    read -r pid <"$spool/$generation.tee" && kill -s TERM "$pid"
    sleep 0.01
    tries=$((tries + 1))
  done
  rm -f "$spool/$generation".*
}

answer_if_killed() { # serve was killed in mid-command
  read -r now <"$spool/$generation.now" && ! [ -e "$spool/$now.code" ] || return
  oom_kills
  result="137 $((kills - before))"
  echo "$result" >"$spool/$now.code"
  if [ -e "$spool/$generation.cut" ]; then
    mark end "$now" "$result" 1
  else
    read -r pid <"$spool/$generation.tee" && inband_mark "$now" "$result" >"/proc/$pid/fd/0"
  fi
}

collector() { # GENERATION BLOCKS: copies the pipe, fd 6; past BLOCKS * 512 bytes of one command it only empties it
  ulimit -c 0
  ulimit -S -f "$2"
  trap '' PIPE
  own_pid "$spool/$1.collector"
  if [ $reopens = 1 ]; then
    $patiently tee -a /dev/fd/3 <&6 >>"$spool/$1.out" 5>&- 6>&- &
  else
    $patiently tee -a "$spool/$1.out" <&6 >&3 3>&- 5>&- 6>&- &
  fi
  echo $! >"$spool/$1.tee"
  wait $!
  code=$?
  read -r now <"$spool/$1.now"
  if [ $code -le 1 ]; then # the pipe is closed; 1: one of its two outputs could not be written
    is_in_file "$1" "$now" || { [ $code = 0 ] || true >"$spool/$1.cut"; finish "$now" $code; }
    true >"$spool/$1.off"
    return
  fi
  if [ $code = 138 ]; then # USR1: the stream broke; the file goes on alone
    cat <&6 >>"$spool/$1.out" 3>&- 5>&- 6>&- && true >"$spool/$1.off" && return
  fi
  true >"$spool/$1.cut"
  [ -e "$spool/$now.code" ] && finish "$now" 1
  true >"$spool/$1.off"
  exec cat <&6 >/dev/null 3>&- 5>&- 6>&-
}

is_in_file() { grep -q -e "^-$secret-end $2 " "$spool/$1.out"; } # GENERATION ID

finish() { # ID CUT: what could not go through the pipe; saying it twice does no harm
  [ -e "$spool/$1.code" ] || sleep 0.1
  read -r result <"$spool/$1.code" || result='137 0'
  mark end "$1" "$result" "$2"
}

# --- control: requests ---

begin() { # ID: true if nobody began it before
  set -C
  echo $$ >"$spool/$id" || { mkdir -p -m 700 "$spool" && echo $$ >"$spool/$id"; }
  begun=$?
  set +C
  return $begun
}

# A request may lie in a broken stream until a newer driver has served it, and long after it was forgotten.
is_newest() { read -r newest <"$spool/driver" || newest=$$; [ "$newest" = $$ ]; }

current() { # ID: true if it is the newest generation's command; that one into $generation
  read -r generation rest <"$spool/generation" && read -r now <"$spool/$generation.now" && [ "$now" = "$1" ]
}

runs() { # ID: it waits or runs; it gets 3 s to start
  [ -e "$spool/$1.code" ] && return 1
  if current "$1"; then
    [ -s "$spool/$generation.serve" ] || { tries=$((tries + 1)); [ $tries -lt 30 ]; return; }
    lives "$spool/$generation.serve"
  else
    tries=$((tries + 1))
    [ $tries -lt 30 ]
  fi
}

detach() { # tee may wait for the stream that broke; what it has read is in the file, the rest goes there without it
  [ -e "$spool/$generation.off" ] || { read -r pid <"$spool/$generation.tee" && kill -s USR1 "$pid"; }
}

is_answered() { # what copies its pipe to this stream has sent the mark, or will
  lives "$spool/$generation.tee" && [ -e "$spool/$1.code" ] && return
  sleep 0.3
  [ -e "$spool/$generation.off" ]
}

resume() { # ID: all of its output once it has ended; its first answer may have gone to a stream that broke
  is_newest || return
  read -r owner <"$spool/$1"
  tries=0 waits=0
  while runs "$1"; do
    sleep 0.1
    waits=$((waits + 1))
    [ $waits = 20 ] && [ "$owner" != $$ ] && current "$1" && detach
  done
  [ -e "$spool/$1.code" ] || sleep 0.3
  if ! [ -e "$spool/$1.code" ]; then
    true >"$spool/$1.dead"
    current "$1" || { mark dropped "$1"; return; }
  fi
  current "$1"
  [ "$owner" = $$ ] && is_answered "$1" && return
  read -r result <"$spool/$1.code" || result='137 0'
  tries=0 cut=0
  until [ -e "$spool/$generation.off" ] || is_in_file "$generation" "$1" || [ $tries = 40 ]; do
    [ -e "$spool/$generation.cut" ] && break
    sleep 0.05
    [ $tries = 20 ] && detach
    tries=$((tries + 1))
  done
  [ -e "$spool/$generation.cut" ] && cut=1
  mark resume "$1"
  cat "$spool/$generation.out" >&3
  mark end "$1" "$result" "$cut"
}

stop() { # ID SIGNAL: the command's group; by KILL also what left the group, found by its environment
  true >"$spool/$1.dead" # before the look: either it is seen here, or this is seen there
  current "$1" && read -r pid <"$spool/$generation.group" && { kill -s "$2" -- "-$pid" || kill -s "$2" "$pid"; }
  [ "$2" = KILL ] || return
  tries=0 # a dying serve must not take the first letters of the next request
  while current "$1" && lives "$spool/$generation.serve" && [ "$newsession" ] && [ $tries -lt 100 ]; do
    sleep 0.01
    tries=$((tries + 1))
  done
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
      lines "$b"
      if ! is_newest; then
        continue
      elif begin "$id"; then
        if printf '%s\n' "$text" >"$spool/$id.run"; then
          echo "$id $a"
        else
          rm -f "$spool/$id"
          mark refused "$id"
        fi
      elif [ -e "$spool/$id" ]; then
        (resume "$id" &)
      else
        mark refused "$id"
      fi
      ;;
    put) head -c "$a" | { cat >"$spool/$id.$$" || { rm -f "$spool/$id.$$"; cat >/dev/null; }; } ;;
    kill) stop "$id" "$a" ;;
    status) [ -e "$spool/$id" ] && (resume "$id" &) || mark unknown "$id" ;;
    forget) forget $id $a $b $c $d ;;
    esac
  done
  true >"$spool/end.$$"
}

exec 3>&1 5>&2 >/dev/null 2>&1 # 5 stays open: containerd closes stdin once nobody holds the stream's stderr
unset ENV
for spool in ${SWEYARD_SPOOL:+"$SWEYARD_SPOOL"} /dev/shm/.sweyard /tmp/.sweyard /var/tmp/.sweyard; do
  mkdir -p -m 700 "$spool" && [ -w "$spool" ] && break
done
command -v setsid && newsession=setsid || newsession=
# On busy processors tee then comes when the command has ended, and its output and mark travel as one message.
nice -n 19 true && patiently='nice -n 19' || patiently=
generation=
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
