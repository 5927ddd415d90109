# worker: one generation after the other.

worker() {
  exec 8<&0
  trap : PIPE # the pipe may close while a mark is being put into it
  while next_request; do
    retire
    generation=g$id
    echo "$generation $$" >"$spool/generation"
    echo "$id" >"$spool/$generation.now"
    mark begin "$id"
    # Opened before the command can run, which may remove the spool.
    true >"$spool/$generation.out" || mkdir -p -m 700 "$spool"
    exec 7>>"$spool/$generation.out"
    oom_kills
    before=$kills
    printf '%s\n' "$secret" "$spool" "$memory_events" "$generation $blocks $$ $id $newsession" |
      SWEYARD_DRIVER=$p $newsession sh -c 'eval "$SWEYARD_DRIVER"' sh - 5>&- 7>&- |
      { collector "$generation" "$blocks" <&6 8<&- & } 6<&0
    exec 7>&-
    answer_if_killed
  done
}

next_request() { # into $id and $blocks
  [ -n "$generation" ] && read -r id blocks <"$spool/$generation.next" && rm -f "$spool/$generation.next" && return
  read -r id blocks
}

retire() { # the last generation: background children of its last command may still write
  read -r generation owner <"$spool/generation" || owner=$$ # the spool was removed
  [ -n "$generation" ] || return
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
    tries=0
    until [ -s "$spool/$generation.collector" ] || [ $tries = 300 ]; do
      sleep 0.01
      tries=$((tries + 1))
    done
    read -r pid <"$spool/$generation.collector"
    inband_mark "$now" "$result" >"/proc/$pid/fd/6" || mark end "$now" "$result" 1
  fi
}

collector() { # GENERATION BLOCKS: copies the pipe, fd 6; past BLOCKS * 512 bytes of one command it only empties it
  ulimit -c 0
  ulimit -S -f "$2"
  trap '' PIPE
  own_pid "$spool/$1.collector"
  if [ $reopens = 1 ]; then
    $patiently tee -a /dev/fd/3 <&6 >&7 5>&- 6>&- 7>&- &
  else
    $patiently tee -a /dev/fd/7 <&6 >&3 3>&- 5>&- 6>&- &
  fi
  echo $! >"$spool/$1.tee"
  wait $!
  code=$?
  read -r now <"$spool/$1.now" || now= # the spool was removed
  if [ $code -le 1 ]; then # the pipe is closed; 1: one of its two outputs could not be written
    [ -z "$now" ] || is_in_file "$1" "$now" || { [ $code = 0 ] || true >"$spool/$1.cut"; finish "$now" $code; }
    true >"$spool/$1.off"
    return
  fi
  if [ $code = 138 ]; then # USR1: the stream broke; the file goes on alone
    cat <&6 >&7 3>&- 5>&- 6>&- 7>&- && true >"$spool/$1.off" && return
  fi
  true >"$spool/$1.cut"
  [ -e "$spool/$now.code" ] && finish "$now" 1
  true >"$spool/$1.off"
  exec cat <&6 >/dev/null 3>&- 5>&- 6>&- 7>&-
}

is_in_file() { grep -q -e "-$secret-end $2 " "$spool/$1.out"; } # GENERATION ID

finish() { # ID CUT: what could not go through the pipe; saying it twice does no harm
  [ -e "$spool/$1.code" ] || sleep 0.1
  read -r result <"$spool/$1.code" || result='137 0'
  mark end "$1" "$result" "$2"
}
