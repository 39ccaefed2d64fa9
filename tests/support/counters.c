/*
 * Only in builds that count coverage. libgcov writes its counters when a process calls exit(): ours also end with
 * _exit() and become other programs, and run as users who share the files of the counters.
 */
#include <gcov.h>
#include <sys/stat.h>
#include <unistd.h>

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);
int __real_fexecve(int program, char *const arguments[], char *const environment[]);
int __wrap_fexecve(int program, char *const arguments[], char *const environment[]);

/* Before libgcov's own destructor, which has priority 100. */
__attribute__((destructor)) static void share_new_files(void)
{
    (void)umask(0);
}

static void write_counters(void)
{
    const mode_t before = umask(0);

    __gcov_dump();
    (void)umask(before);
}

void __wrap__exit(int status)
{
    write_counters();
    __real__exit(status);
}

int __wrap_fexecve(int program, char *const arguments[], char *const environment[])
{
    write_counters();
    __gcov_reset(); /* if the program can't be started, this one goes on to count */
    return __real_fexecve(program, arguments, environment);
}
