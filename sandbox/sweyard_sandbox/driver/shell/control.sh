# control: reads requests, and answers at once what needs no waiting.

begin() { # ID: true if nobody began it before
  set -C
  echo $$ >"$spool/$id" || { mkdir -p -m 700 "$spool" && echo $$ >"$spool/$id"; }
  begun=$?
  set +C
  return $begun
}

refuse() { # ID
  hash -r # where a shell once found a program, it takes it to be
  command -v mkdir >/dev/null && mark refused "$1" || mark ruined "$1"
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
          refuse "$id"
        fi
      elif [ -e "$spool/$id" ]; then
        (resume "$id" &)
      else
        refuse "$id"
      fi
      ;;
    put) head -c "$a" | { cat >"$spool/$id.$$" || { rm -f "$spool/$id.$$"; cat >/dev/null; }; } ;;
    kill) stop "$id" "$a" ;;
    status) [ -e "$spool/$id" ] && (resume "$id" &) || mark unknown "$id" ;;
    forget) forget $id $a $b $c $d ;;
    esac
  done
  true >"$spool/end.$$" || kill -s TERM $$ # where a command removed what makes files
}
