# serve: one command after the other, in a session of its own.

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
    if [ "$blocks" != "$limit" ] || [ -e "$spool/$generation.cut" ] || ! [ -e "$spool/$generation.now" ]; then
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
  elif ! [ -r "$spool/$id.run" ]; then # the spool was removed
    mark dropped "$id"
    exit
  else
    #@ before-start
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
  #@ after-exit
  oom_kills
  result="$code $((kills - before))"
  echo "$result" >"$spool/$id.code"
  #@ before-mark
  if [ -e "$spool/$generation.cut" ]; then
    mark end "$id" "$result" 1
    return 1
  fi
  inband_mark "$id" "$result" || mark end "$id" "$result" 1
  ! is_held
}

is_held() { # does a process that was not there before hold the pipe?
  set -- /proc/[0-9]*
  [ " $* " = "$known" ] && return 1
  [ $# -gt 400 ] && return # to look at so many costs more than a new pipe
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
