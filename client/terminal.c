#include "client/terminal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static unsigned columns_of(int fd)
{
    struct winsize size = {0};

    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
}

unsigned terminal_columns(void)
{
    return columns_of(STDERR_FILENO);
}

bool terminal_is_narrow(unsigned columns)
{
    return isatty(STDOUT_FILENO) == 1 && columns_of(STDOUT_FILENO) < columns;
}

void terminal_progress_end(void)
{
    if (isatty(STDERR_FILENO) != 1) return;
    (void)fputs("\r\033[K", stderr);
    (void)fflush(stderr);
}

void terminal_progress(const char *format, ...)
{
    va_list arguments;

    if (isatty(STDERR_FILENO) != 1) return;
    terminal_progress_end();
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fflush(stderr);
}

size_t terminal_fit(const char *text, unsigned columns, unsigned *columns_out)
{
    size_t bytes = 0;
    unsigned filled = 0;

    while (text[bytes] != '\0' && filled < columns) {
        size_t length = 0;
        (void)terminal_control(text + bytes, &length);
        bytes += length == 0 ? 1 : length;
        filled++;
    }
    *columns_out = filled;
    return bytes;
}

struct result terminal_secret(const char *what, char *destination, size_t room, struct error *err)
{
    struct termios before, silent;
    const bool terminal = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &before) == 0;

    if (terminal) {
        silent = before;
        silent.c_lflag &= ~(tcflag_t)ECHO;
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
        (void)fprintf(stderr, "%s: ", what);
    }
    const char *line = fgets(destination, (int)room, stdin);
    if (terminal) {
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        (void)fputc('\n', stderr);
    }
    if (line == NULL && ferror(stdin)) return failure(err, ERROR_INVALID, "can't read standard input: %s", strerror(errno));
    if (line == NULL) return failure(err, ERROR_INVALID, "%s: nothing is on standard input", what);
    destination[strcspn(destination, "\r\n")] = '\0';
    if (destination[0] == '\0') return failure(err, ERROR_INVALID, "%s: it is empty", what);
    return SUCCESS;
}

bool terminal_is_there(void)
{
    return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
}

struct result terminal_confirm(const char *question, const char *otherwise, struct error *err)
{
    char line[16] = "";

    (void)fprintf(stderr, "%s: ", question);
    if (fgets(line, sizeof line, stdin) != NULL && strcmp(line, "yes\n") == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "%s", otherwise);
}

struct result terminal_ask(const char *question, char *destination, size_t room, struct error *err)
{
    (void)fprintf(stderr, "%s: ", question);
    (void)fflush(stderr);
    if (fgets(destination, (int)room, stdin) == NULL) return failure(err, ERROR_INVALID, "nobody answered");
    size_t length = strlen(destination);
    if (length + 1 == room && destination[length - 1] != '\n')
        return failure(err, ERROR_INVALID, "the answer is longer than %zu letters", room - 2);
    while (length > 0 && strchr(" \t\r\n", destination[length - 1]) != NULL) destination[--length] = '\0';
    const size_t before = strspn(destination, " \t");
    memmove(destination, destination + before, length - before + 1);
    return SUCCESS;
}
