/* The filter for untrusted code, such as the training code of a run. */
#include <errno.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/sandbox.h"

#define CALL(name)   SCMP_SYS(name)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The calls of Debian 12's programs and their libraries: files, memory, threads, time, and sockets of the families below. A call
 * that is not here does not exist for the payload (ENOSYS): a library then does what it does on an older kernel. */
static const int allowed[] = {
    /* files and folders */
    CALL(access),
    CALL(chdir),
    CALL(chmod),
    CALL(close),
    CALL(close_range),
    CALL(copy_file_range),
    CALL(creat),
    CALL(dup),
    CALL(dup2),
    CALL(dup3),
    CALL(faccessat),
    CALL(faccessat2),
    CALL(fadvise64),
    CALL(fallocate),
    CALL(fchdir),
    CALL(fchmod),
    CALL(fchmodat),
    CALL(fcntl),
    CALL(fdatasync),
    CALL(fgetxattr),
    CALL(flistxattr),
    CALL(flock),
    CALL(fstat),
    CALL(fstatfs),
    CALL(fsync),
    CALL(ftruncate),
    CALL(getcwd),
    CALL(getdents),
    CALL(getdents64),
    CALL(getxattr),
    CALL(ioctl),
    CALL(lgetxattr),
    CALL(link),
    CALL(linkat),
    CALL(listxattr),
    CALL(llistxattr),
    CALL(lseek),
    CALL(lstat),
    CALL(mkdir),
    CALL(mkdirat),
    CALL(newfstatat),
    CALL(open),
    CALL(openat),
    CALL(openat2),
    CALL(pread64),
    CALL(preadv),
    CALL(preadv2),
    CALL(pwrite64),
    CALL(pwritev),
    CALL(pwritev2),
    CALL(read),
    CALL(readahead),
    CALL(readlink),
    CALL(readlinkat),
    CALL(readv),
    CALL(rename),
    CALL(renameat),
    CALL(renameat2),
    CALL(rmdir),
    CALL(sendfile),
    CALL(splice),
    CALL(stat),
    CALL(statfs),
    CALL(statx),
    CALL(symlink),
    CALL(symlinkat),
    CALL(sync_file_range),
    CALL(tee),
    CALL(truncate),
    CALL(umask),
    CALL(unlink),
    CALL(unlinkat),
    CALL(utime),
    CALL(utimensat),
    CALL(utimes),
    CALL(write),
    CALL(writev),
    /* memory */
    CALL(brk),
    CALL(get_mempolicy),
    CALL(madvise),
    CALL(mbind),
    CALL(membarrier),
    CALL(memfd_create),
    CALL(mincore),
    CALL(mlock),
    CALL(mlock2),
    CALL(mmap),
    CALL(mprotect),
    CALL(mremap),
    CALL(msync),
    CALL(munlock),
    CALL(munmap),
    CALL(pkey_alloc),
    CALL(pkey_free),
    CALL(pkey_mprotect),
    CALL(set_mempolicy),
    CALL(shmat),
    CALL(shmctl),
    CALL(shmdt),
    CALL(shmget),
    /* the program's own processes and threads */
    CALL(arch_prctl),
    CALL(clone),
    CALL(execve),
    CALL(execveat),
    CALL(exit),
    CALL(exit_group),
    CALL(fork),
    CALL(futex),
    CALL(futex_waitv),
    CALL(get_robust_list),
    CALL(getcpu),
    CALL(getegid),
    CALL(geteuid),
    CALL(getgid),
    CALL(getgroups),
    CALL(getpgid),
    CALL(getpgrp),
    CALL(getpid),
    CALL(getppid),
    CALL(getpriority),
    CALL(getresgid),
    CALL(getresuid),
    CALL(getrlimit),
    CALL(getrusage),
    CALL(getsid),
    CALL(gettid),
    CALL(getuid),
    CALL(kill),
    CALL(pidfd_open),
    CALL(pidfd_send_signal),
    CALL(prctl),
    CALL(prlimit64),
    CALL(rseq),
    CALL(sched_get_priority_max),
    CALL(sched_get_priority_min),
    CALL(sched_getaffinity),
    CALL(sched_getattr),
    CALL(sched_getparam),
    CALL(sched_getscheduler),
    CALL(sched_setaffinity),
    CALL(sched_yield),
    CALL(set_robust_list),
    CALL(set_tid_address),
    CALL(setpgid),
    CALL(setpriority),
    CALL(setrlimit),
    CALL(setsid),
    CALL(sysinfo),
    CALL(tgkill),
    CALL(times),
    CALL(tkill),
    CALL(uname),
    CALL(vfork),
    CALL(wait4),
    CALL(waitid),
    /* signals */
    CALL(pause),
    CALL(restart_syscall),
    CALL(rt_sigaction),
    CALL(rt_sigpending),
    CALL(rt_sigprocmask),
    CALL(rt_sigqueueinfo),
    CALL(rt_sigreturn),
    CALL(rt_sigsuspend),
    CALL(rt_sigtimedwait),
    CALL(rt_tgsigqueueinfo),
    CALL(sigaltstack),
    CALL(signalfd),
    CALL(signalfd4),
    /* time */
    CALL(alarm),
    CALL(clock_getres),
    CALL(clock_gettime),
    CALL(clock_nanosleep),
    CALL(getitimer),
    CALL(gettimeofday),
    CALL(nanosleep),
    CALL(setitimer),
    CALL(time),
    CALL(timer_create),
    CALL(timer_delete),
    CALL(timer_getoverrun),
    CALL(timer_gettime),
    CALL(timer_settime),
    CALL(timerfd_create),
    CALL(timerfd_gettime),
    CALL(timerfd_settime),
    /* waiting */
    CALL(epoll_create),
    CALL(epoll_create1),
    CALL(epoll_ctl),
    CALL(epoll_pwait),
    CALL(epoll_pwait2),
    CALL(epoll_wait),
    CALL(eventfd),
    CALL(eventfd2),
    CALL(pipe),
    CALL(pipe2),
    CALL(poll),
    CALL(ppoll),
    CALL(pselect6),
    CALL(select),
    /* sockets, messages and semaphores between its own processes */
    CALL(accept),
    CALL(accept4),
    CALL(bind),
    CALL(connect),
    CALL(getpeername),
    CALL(getsockname),
    CALL(getsockopt),
    CALL(listen),
    CALL(mq_getsetattr),
    CALL(mq_notify),
    CALL(mq_open),
    CALL(mq_timedreceive),
    CALL(mq_timedsend),
    CALL(mq_unlink),
    CALL(msgctl),
    CALL(msgget),
    CALL(msgrcv),
    CALL(msgsnd),
    CALL(recvfrom),
    CALL(recvmmsg),
    CALL(recvmsg),
    CALL(semctl),
    CALL(semget),
    CALL(semop),
    CALL(semtimedop),
    CALL(sendmmsg),
    CALL(sendmsg),
    CALL(sendto),
    CALL(setsockopt),
    CALL(shutdown),
    /* other */
    CALL(getrandom),
};

/*
 * Calls that an honest library may try; they fail with an error that it understands: tracing, namespaces, mounts, users, keys.
 */
static const int refused[] = {
    CALL(ptrace),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(pidfd_getfd),
    CALL(kcmp),
    CALL(mount),
    CALL(umount2),
    CALL(pivot_root),
    CALL(chroot),
    CALL(unshare),
    CALL(setns),
    CALL(perf_event_open),
    CALL(setuid),
    CALL(setgid),
    CALL(setreuid),
    CALL(setregid),
    CALL(setresuid),
    CALL(setresgid),
    CALL(setgroups),
    CALL(setfsuid),
    CALL(setfsgid),
    CALL(capset),
    CALL(keyctl),
    CALL(add_key),
    CALL(request_key),
    CALL(setxattr),
    CALL(lsetxattr),
    CALL(fsetxattr),
    CALL(mknod),
    CALL(mknodat),
    CALL(sched_setscheduler),
    CALL(mlockall),
    CALL(quotactl),
    CALL(personality),
};

/* Programs that unpack archives set owners. */
static const int owners[] = {CALL(chown), CALL(fchown), CALL(lchown), CALL(fchownat)};

/* Only an attack on the kernel calls these, so the process ends (SIGSYS) and gets no second try. */
static const int killed[] = {
    CALL(init_module),   CALL(finit_module),    CALL(delete_module),
    CALL(kexec_load),    CALL(kexec_file_load), CALL(bpf),
    CALL(userfaultfd),   CALL(reboot),          CALL(open_by_handle_at),
    CALL(swapon),        CALL(swapoff),         CALL(acct),
    CALL(settimeofday),  CALL(clock_settime),   CALL(adjtimex),
    CALL(clock_adjtime), CALL(sethostname),     CALL(setdomainname),
    CALL(iopl),          CALL(ioperm),          CALL(modify_ldt),
    CALL(syslog),        CALL(move_mount),      CALL(open_tree),
    CALL(fsopen),        CALL(fsmount),         CALL(fspick),
    CALL(fsconfig),      CALL(mount_setattr),
};

static int add_all(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t count)
{
    int problem = 0;

    for (size_t i = 0; i < count && problem == 0; i++) problem = seccomp_rule_add(filter, action, calls[i], 0);
    return problem == -EDOM ? 0 : problem; /* this architecture has no such call */
}

/* Sockets that a network namespace does not hold (AF_VSOCK, AF_ALG) or that speak to the kernel (AF_NETLINK, AF_PACKET) do not exist. */
static int add_sockets(scmp_filter_ctx filter)
{
    static const int families[] = {AF_UNIX, AF_INET, AF_INET6};
    int problem = 0;

    for (size_t i = 0; i < COUNT(families) && problem == 0; i++)
        problem = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(socket), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i], 0));
    if (problem == 0) problem = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(socketpair), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
    return problem;
}

/*
 * getifaddrs(3), with which libraries (Gloo) find the device of an address before they use it, also if that is 127.0.0.1. Whoever has no rights in the namespace can
 * change nothing by it.
 */
static int add_routes(scmp_filter_ctx filter)
{
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK, 0),
                            SCMP_A2(SCMP_CMP_EQ, NETLINK_ROUTE, 0));
}

/* clone() without new namespaces: one mask of all their bits. clone3() is not in the list, because its flags are in memory. */
static int add_clone(scmp_filter_ctx filter)
{
    const scmp_datum_t namespaces =
        (scmp_datum_t)CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces, 0));
}

/*
 * Allows a call unless its second argument, in the bits of `mask`, is `denied`. The kernel takes 32 bits of that argument and ignores the others, so no
 * rule compares the whole argument: one rule for each bit that may differ.
 */
static int add_unless(scmp_filter_ctx filter, int call, uint32_t mask, uint32_t denied)
{
    int problem = 0;

    for (uint32_t bit = 1; bit != 0 && problem == 0; bit <<= 1)
        if ((mask & bit) != 0)
            problem = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, SCMP_A1(SCMP_CMP_MASKED_EQ, bit, ~denied & bit));
    return problem;
}

/* All ioctl() calls except TIOCSTI, which types into a terminal. Devices check their own calls. */
static int add_ioctl(scmp_filter_ctx filter)
{
    return add_unless(filter, CALL(ioctl), UINT32_MAX, TIOCSTI);
}

/*
 * All of fcntl() except F_SETLEASE, F_GETLEASE and F_NOTIFY (1024 to 1026; 1027 is unused): they show that another process opens or changes a file or a folder of /usr. So
 * does inotify, which is not in the list.
 */
static int add_fcntl(scmp_filter_ctx filter)
{
    return add_unless(filter, CALL(fcntl), ~UINT32_C(3), 1024);
}

static bool has_own_rule(int call)
{
    return call == CALL(clone) || call == CALL(ioctl) || call == CALL(fcntl);
}

static int fill(scmp_filter_ctx filter, enum sandbox_code code)
{
    const bool unpacks = code == SANDBOX_UNPACKS;
    int problem = 0;

    for (size_t i = 0; i < COUNT(allowed) && problem == 0; i++)
        if (!has_own_rule(allowed[i])) problem = add_all(filter, SCMP_ACT_ALLOW, &allowed[i], 1);
    if (problem == 0) problem = add_all(filter, SCMP_ACT_ERRNO(EPERM), refused, COUNT(refused));
    if (problem == 0) problem = add_all(filter, unpacks ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM), owners, COUNT(owners));
    if (problem == 0) problem = add_all(filter, SCMP_ACT_KILL_PROCESS, killed, COUNT(killed));
    if (problem == 0) problem = add_sockets(filter);
    if (problem == 0 && code == SANDBOX_TASKS) problem = add_routes(filter);
    if (problem == 0) problem = add_clone(filter);
    if (problem == 0) problem = add_fcntl(filter);
    return problem == 0 ? add_ioctl(filter) : problem;
}

struct result sandbox_write_filter(int fd, enum sandbox_code code, struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));

    if (filter == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the system call filter");
    int problem = fill(filter, code);
    if (problem == 0) problem = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree: some 240 calls */
    if (problem == 0) problem = seccomp_export_bpf(filter, fd);
    seccomp_release(filter);
    if (problem != 0) return failure(err, ERROR_UNAVAILABLE, "the system call filter can't be written: %s", strerror(-problem));
    return SUCCESS;
}
