# Whether the supervisor of this container is well: it is the oldest child of the first process.
read -r supervisor others </proc/1/task/1/children
[ -n "$supervisor" ] || exit 1
read -r pid name state rest <"/proc/$supervisor/stat" || exit 1
case $state in
[RSDI]) exit 0 ;;
*) exit 1 ;;
esac
