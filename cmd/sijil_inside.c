/*
 * sijil-inside: the first program in a sandbox. It shows from inside that the sandbox is closed, waits for the message to begin,
 * and becomes the payload. It is linked statically and uses the C library alone, because an image may have no libraries.
 *
 * usage: sijil-inside SOCKET PROCESSES PLACES TASKS GRACE [ADDRESS PORT]... -- PROGRAM [ARGUMENT]...
 * PLACES is "-" if the sandbox shows this machine's /usr. For an image it has DEVICE:INODE of the machine's folders, with commas: none of them may
 * be seen. With two TASKS or more, sijil-inside stays and runs the program as often (runner/sandbox/tasks.h); after one has failed, the others get TERM,
 * and KILL after GRACE seconds.
 * Messages on SOCKET (a seqpacket pair): it sends "ready" or "open: WHAT", gets "go", sends "begin", and
 * then "exec: WHY" if the program can't begin. In the place of "go" it may get "look": then it looks again, and sends "ready" or "open: WHAT".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/sandbox/closed.h"
#include "runner/sandbox/tasks.h"

enum { MESSAGE_SIZE = 256, FIRST_ADDRESS = 6, EXIT_CLOSED = 125, EXIT_NO_PROGRAM = 127 };

static int channel;

static void tell(const char *what, const char *detail)
{
    char text[MESSAGE_SIZE];

    (void)snprintf(text, sizeof text, "%s%s", what, detail);
    (void)!send(channel, text, strlen(text), MSG_NOSIGNAL);
}

/* Returns the exit status if it can't, after it has told so. */
static int become(char **program)
{
    (void)execvp(program[0], program);
    tell("exec: ", strerror(errno));
    return EXIT_NO_PROGRAM;
}

static _Noreturn void refuse(const char *what)
{
    tell("open: ", what);
    _exit(EXIT_CLOSED);
}

/* The runner wrote these digits. */
static unsigned long number_of(const char *digits)
{
    unsigned long number = 0;

    for (; *digits >= '0' && *digits <= '9'; digits++) number = number * 10 + (unsigned long)(*digits - '0');
    return number;
}

static void check_address(const char *text, const char *port)
{
    if (!closed_to(text, port)) refuse(text);
}

static void check_privileges(void)
{
    const char *wrong = closed_privileges();

    if (wrong != NULL) refuse(wrong);
}

static void check_places_of_machine(void)
{
    static const char *const closed[] = {"/root", "/home", "/var", "/srv", "/sys", "/boot", "/etc/ssh", "/etc/sijil"};

    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++)
        if (access(closed[i], F_OK) == 0) refuse(closed[i]);
}

static bool is_listed(const char *places, const struct stat *about)
{
    char place[64]; /* two numbers */
    const size_t length =
        (size_t)snprintf(place, sizeof place, "%llu:%llu", (unsigned long long)about->st_dev, (unsigned long long)about->st_ino);

    for (const char *at = strstr(places, place); at != NULL; at = strstr(at + 1, place))
        if ((at == places || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) return true;
    return false;
}

/* An image has such folders, too: they must not be the machine's. */
static void check_places_of_image(const char *places)
{
    static const char *const seen[] = {"/", "/usr", "/etc", "/var", "/home", "/root", "/srv", "/opt", "/boot", "/bin", "/lib"};
    struct stat about;

    if (access("/sys", F_OK) == 0) refuse("/sys");
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++)
        if (stat(seen[i], &about) == 0 && is_listed(places, &about)) refuse(seen[i]);
    if (access("/etc", W_OK) == 0) refuse("/etc can be written to");
}

/* In a process namespace of its own, the only process before this one is bubblewrap. */
static void check_places(const char *places)
{
    if (strcmp(places, "-") == 0) check_places_of_machine();
    else check_places_of_image(places);
    if (access("/usr", W_OK) == 0) refuse("/usr can be written to");
    if (getppid() != 1) refuse("there are processes of others");
}

static void limit_processes(const char *most)
{
    const rlim_t number = number_of(most);
    const struct rlimit limit = {number, number};

    if (setrlimit(RLIMIT_NPROC, &limit) != 0) refuse("the number of processes can't be limited");
}

/* Whether the program may begin; else this process is to look again. */
static bool hear_go(void)
{
    char word[5];
    ssize_t length = 0;

    while ((length = recv(channel, word, sizeof word, 0)) < 0 && errno == EINTR) {
    }
    if (length == 2 && memcmp(word, "go", 2) == 0) return true;
    if (length != 4 || memcmp(word, "look", 4) != 0) _exit(EXIT_CLOSED);
    return false;
}

int main(int argc, char **argv)
{
    int at = FIRST_ADDRESS;

    if (argc < 8) return EXIT_CLOSED;
    channel = (int)number_of(argv[1]);
    if (fcntl(channel, F_SETFD, FD_CLOEXEC) != 0) return EXIT_CLOSED;
    while (at + 1 < argc && strcmp(argv[at], "--") != 0) at += 2;
    if (at + 1 >= argc || strcmp(argv[at], "--") != 0) return EXIT_CLOSED;
    check_places(argv[3]);
    limit_processes(argv[2]);
    do {
        for (int i = FIRST_ADDRESS; i < at; i += 2) check_address(argv[i], argv[i + 1]);
        check_privileges();
        tell("ready", "");
    } while (!hear_go());
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    tell("begin", "");
    const unsigned long tasks = number_of(argv[4]);
    if (tasks < 2) return become(argv + at + 1);
    return tasks_run((unsigned)tasks, number_of(argv[5]), argv + at + 1, become);
}
