# control: reads requests, and answers at once what needs no waiting.

claim() { # ID: $is_mine is set if nobody did before, and stays empty if somebody did, or nobody can
  is_mine=
  set -C # the file is made, or it is there: the system decides in one call
  { is_mine=1 && echo "$stream"; } >"$spool/$1"
  set +C
}

remembers() { # ID LEDGER: is a claim of ID under LEDGER still known here, if there was one?
  [ -e "$spool/$2" ] || return
  [ -e "$spool/$2.floor" ] && read -r floor <"$spool/$2.floor" || return 0
  [ "$1" \> "$floor" ]
}

# A command may be removing the spool, its claim first: then it is among the processes, or the ledger is gone too.
is_unbegun() { # ID LEDGER: certainly
  ! [ -e "$spool/$1" ] && ! grep -q "SWEYARD_COMMAND=$1" /proc/[0-9]*/environ && remembers "$1" "$2"
}

lose() { # ID: main makes another spool, if it can
  [ "$ledger" = none ] && refuse "$1" || mark lost "$1"
  exit
}

refuse() { # ID
  hash -r # where a shell once found a program, it takes it to be
  command -v mkdir >/dev/null && mark refused "$1" || mark ruined "$1"
}

is_newest() { read -r newest <"$spool/driver" || newest=$stream; [ "${newest##*.}" -le "${stream##*.}" ]; }

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

resume() { # ID LEDGER: all of its output once it has ended; its first answer may have gone to a stream that broke
  is_newest || return
  read -r owner <"$spool/$1"
  tries=0 waits=0
  while remembers "$@" && runs "$1"; do
    sleep 0.1
    waits=$((waits + 1))
    [ $waits = 20 ] && [ "$owner" != "$stream" ] && current "$1" && detach
  done
  [ -e "$spool/$1.code" ] || sleep 0.3
  if ! [ -e "$spool/$1.code" ]; then
    true >"$spool/$1.dead"
    current "$1" || { mark_known "$@" dropped "$1"; return; }
  fi
  current "$1"
  [ "$owner" = "$stream" ] && is_answered "$1" && return
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
  mark_known "$@" end "$1" "$result" "$cut"
}

mark_known() { # ID LEDGER WORDS...: unless what they were read from was being removed
  if remembers "$1" "$2"; then
    shift 2
    mark "$@"
  else
    mark lost "$1"
  fi
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

forget() { # LEDGER ID...: they were answered
  floor=$spool/$1.floor files=
  shift
  for name; do files="$files $name.run $name.code $name.dead"; done
  (
    cd "$spool" || exit
    for file in *.put.* *.text.*; do # to look for each name's would read the folder that often
      case " $* " in *" ${file%%.*} "*) files="$files $file" ;; esac
    done
    exec rm -f $files
  )
  echo "$name" >"$floor" || return # a driver that was held up must not find a claim free again
  (cd "$spool" && exec rm -f "$@")
}

control() { # what the worker needs goes to stdout
  while read -r verb id a b c d; do
    case $verb in
    run)
      lines "$c"
      #@ before-claim
      claim "$id"
      #@ after-claim
      if ! remembers "$id" "$a"; then
        lose "$id"
      elif ! [ "$is_mine" ]; then
        [ -e "$spool/$id" ] && (resume "$id" "$a" &) || refuse "$id"
      elif printf '%s\n' "$text" >"$spool/$id.run"; then
        echo "$id $b"
      else
        rm -f "$spool/$id.run"
        refuse "$id"
      fi
      ;;
    put) head -c "$a" | { cat >"$spool/$id.$$" || { rm -f "$spool/$id.$$"; cat >/dev/null; }; } ;;
    kill) stop "$id" "$a" ;;
    status)
      if is_unbegun "$id" "$a"; then
        mark unknown "$id"
      elif remembers "$id" "$a" && [ -e "$spool/$id" ]; then
        (resume "$id" "$a" &)
      else
        lose "$id"
      fi
      ;;
    forget) forget "$id" $a $b $c $d ;;
    esac
  done
  true >"$spool/end.$stream" || kill -s TERM $$ # where a command removed what makes files
}
