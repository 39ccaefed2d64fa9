#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static const char *const level_names[] = {"debug", "info", "warning", "error"};
static _Atomic int least_level = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&least_level, (int)level);
}

bool log_level_find(const char *name, enum log_level *level_out)
{
    for (size_t i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(level_names[i], name) != 0) continue;
        *level_out = (enum log_level)i;
        return true;
    }
    return false;
}

/* A line that is being written. Logging must work without free memory, so it allocates nothing. */
struct line {
    char text[LOG_LINE_MAX];
    size_t length;
};

/* Leaves room for the closing quote, brace and line feed. */
static void add_raw(struct line *line, const char *text, size_t length)
{
    const size_t room = sizeof line->text - 3 - line->length;
    const size_t count = length < room ? length : room;

    memcpy(line->text + line->length, text, count);
    line->length += count;
}

static void add_quoted(struct line *line, const char *text)
{
    static const char digits[] = "0123456789abcdef";

    add_raw(line, "\"", 1);
    for (; *text != '\0' && line->length + 16 < sizeof line->text; text++) {
        const unsigned char letter = (unsigned char)*text;
        if (letter >= 0x20 && letter < 0x7f && letter != '"' && letter != '\\') {
            line->text[line->length++] = *text;
            continue;
        }
        const char escape[] = {'\\', 'u', '0', '0', digits[letter >> 4], digits[letter & 15]};
        add_raw(line, escape, sizeof escape);
    }
    line->text[line->length++] = '"';
}

static void add_pair(struct line *line, const char *key, const char *value)
{
    if (line->length + strlen(key) + 40 > sizeof line->text) return;
    add_raw(line, line->length > 1 ? "," : "", line->length > 1);
    add_quoted(line, key);
    add_raw(line, ":", 1);
    add_quoted(line, value);
}

void log_line(enum log_level level, const char *what, ...)
{
    struct line line; /* not zeroed: it has 4 KiB, and each request writes one */
    char now[CLOCK_TEXT_SIZE];
    va_list args;

    if ((int)level < atomic_load_explicit(&least_level, memory_order_relaxed)) return;
    clock_format(clock_wall_ms(), now);
    line.text[0] = '{';
    line.length = 1;
    add_pair(&line, "time", now);
    add_pair(&line, "level", level_names[level]);
    add_pair(&line, "message", what);
    va_start(args, what);
    for (const char *key; (key = va_arg(args, const char *)) != NULL;) {
        const char *value = va_arg(args, const char *);
        if (value != NULL) add_pair(&line, key, value);
    }
    va_end(args);
    line.text[line.length++] = '}';
    line.text[line.length++] = '\n';
    const ssize_t written = write(STDERR_FILENO, line.text, line.length);
    (void)written; /* a failure can't be reported anywhere */
}

void log_error(const char *what, const struct error *err)
{
    log_line(LOG_ERROR, what, "kind", error_kind_name(err->kind), "error", err->message, NULL);
}
