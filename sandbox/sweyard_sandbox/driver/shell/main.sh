# The first shell of a stream.
exec 3>&1 5>&2 >/dev/null 2>&1 # 5 stays open: containerd closes stdin once nobody holds the stream's stderr
unset ENV
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
read -r _ secret n stream ledger && lines "$n" && eval "$text" || exit

born() { shift 19 && born=$1; } # 22nd field, of which two are gone
born=
read -r stat </proc/1/stat && born ${stat##*) }

missing=
for tool in cat grep head mkdir rm sleep tee; do command -v "$tool" || missing="$missing $tool"; done
[ -z "$missing" ] || { mark lacks$missing; exit; }

num_ledgers=0
find_spool() { # FOLDER...: into $spool, the one that $ledger is in; else an empty one and its $ledger, or none
  for spool; do [ -e "$spool/$ledger" ] && [ -w "$spool" ] && return; done
  num_ledgers=$((num_ledgers + 1))
  ledger=$stream.$num_ledgers
  for spool; do mkdir -p -m 700 "$spool" && true >"$spool/$ledger" && return; done
  ledger=none
}

spool=/
# A command may kill both loops and leave this shell alive, where it is process 1; then the client is greeted anew, and
# so it is when the spool was lost.
until [ -e "$spool/end.$stream" ]; do
  find_spool ${SWEYARD_SPOOL:+"$SWEYARD_SPOOL"} /dev/shm/.sweyard /tmp/.sweyard /var/tmp/.sweyard
  echo "$stream" >"$spool/driver"
  mark hello "$exact" "$spool" "$ledger" "$born"
  control | worker
done
rm -f "$spool/end.$stream"
