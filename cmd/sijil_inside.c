/*
 * sijil-inside: the first program in a sandbox. It shows from inside that the sandbox is closed, waits for the message to begin,
 * and becomes the payload. It is linked statically and uses the C library alone, because an image may have no libraries.
 *
 * usage: sijil-inside SOCKET PROCESSES [ADDRESS PORT]... -- PROGRAM [ARGUMENT]...
 * Messages on SOCKET (a seqpacket pair): it sends "ready" or "open: WHAT", gets "go", sends "begin", and
 * then "exec: WHY" if the program can't begin.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/sandbox/closed.h"

enum { MESSAGE_SIZE = 256, EXIT_CLOSED = 125, EXIT_NO_PROGRAM = 127 };

static int channel;

static void tell(const char *what, const char *detail)
{
    char text[MESSAGE_SIZE];

    (void)snprintf(text, sizeof text, "%s%s", what, detail);
    (void)!send(channel, text, strlen(text), MSG_NOSIGNAL);
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

/* In a process namespace of its own, the only process before this one is bubblewrap. */
static void check_places(void)
{
    static const char *const closed[] = {"/root", "/home", "/var", "/srv", "/sys", "/boot", "/etc/ssh", "/etc/sijil"};

    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++)
        if (access(closed[i], F_OK) == 0) refuse(closed[i]);
    if (access("/usr", W_OK) == 0) refuse("/usr can be written to");
    if (getppid() != 1) refuse("there are processes of others");
}

static void limit_processes(const char *most)
{
    const rlim_t number = number_of(most);
    const struct rlimit limit = {number, number};

    if (setrlimit(RLIMIT_NPROC, &limit) != 0) refuse("the number of processes can't be limited");
}

static void wait_for_word(void)
{
    char word[4];
    ssize_t length = 0;

    while ((length = recv(channel, word, sizeof word, 0)) < 0 && errno == EINTR) {
    }
    if (length != 2 || memcmp(word, "go", 2) != 0) _exit(EXIT_CLOSED);
}

int main(int argc, char **argv)
{
    int at = 3;

    if (argc < 5) return EXIT_CLOSED;
    channel = (int)number_of(argv[1]);
    if (fcntl(channel, F_SETFD, FD_CLOEXEC) != 0) return EXIT_CLOSED;
    for (; at + 1 < argc && strcmp(argv[at], "--") != 0; at += 2) check_address(argv[at], argv[at + 1]);
    if (at + 1 >= argc || strcmp(argv[at], "--") != 0) return EXIT_CLOSED;
    check_privileges();
    check_places();
    limit_processes(argv[2]);
    tell("ready", "");
    wait_for_word();
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    tell("begin", "");
    (void)execvp(argv[at + 1], argv + at + 1);
    tell("exec: ", strerror(errno));
    return EXIT_NO_PROGRAM;
}
