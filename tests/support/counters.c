/*
 * Only in builds that count coverage. libgcov writes its counters when a process calls exit(). Our processes also end with
 * _exit(), or start another program in their place, and several users share the files of the counters.
 */
#include <gcov.h>
#include <sys/stat.h>
#include <unistd.h>

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);
_Noreturn void __real_abort(void);
_Noreturn void __wrap_abort(void);
_Noreturn void __real___assert_fail(const char *what, const char *file, unsigned line, const char *function);
_Noreturn void __wrap___assert_fail(const char *what, const char *file, unsigned line, const char *function);
int __real_fexecve(int program, char *const arguments[], char *const environment[]);
int __wrap_fexecve(int program, char *const arguments[], char *const environment[]);

/* Runs before libgcov's destructor, which has priority 100. */
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

/* A test's child that must abort has executed code that counts too. */
void __wrap_abort(void)
{
    write_counters();
    __real_abort();
}

void __wrap___assert_fail(const char *what, const char *file, unsigned line, const char *function)
{
    write_counters();
    __real___assert_fail(what, file, line, function);
}

int __wrap_fexecve(int program, char *const arguments[], char *const environment[])
{
    write_counters();
    __gcov_reset(); /* if the program can't be started, this one continues to count */
    return __real_fexecve(program, arguments, environment);
}
