/*
 * base/config.h -- configuration files, described by one table of parameters.
 *
 * A program writes its parameters once, as an X-macro table. The struct with their values, the reader, the checks, the
 * sample file and the documentation all come from it. Files have libconfuse's syntax. A wrong name, type or range is
 * ERROR_INVALID, with the line and the most similar name; nothing unknown is ignored.
 *
 *     #define SERVER_PARAMETERS(X) \
 *         X(TEXT, listen_address, "127.0.0.1", 0, 0, "", "Address to listen on") \
 *         X(INTEGER, listen_port, "8443", 1, 65535, "", "TCP port")
 *     struct server_settings { SERVER_PARAMETERS(CONFIG_FIELD) };
 *     static const struct config_parameter parameters[] = {
 *     #define X(...) CONFIG_ROW(struct server_settings, __VA_ARGS__)
 *         SERVER_PARAMETERS(X)
 *     #undef X
 *     };
 */
#pragma once

#include <stdint.h>

#include "base/bytes.h"
#include "base/problems.h"

#define CONFIG_TEXT_SIZE 512 /* paths, URLs and connection strings; longer ones are refused */

enum config_type { CONFIG_TEXT, CONFIG_INTEGER, CONFIG_BOOLEAN };

struct config_parameter {
    enum config_type type;
    const char *name;
    const char *initial;      /* the default, as written in a file; NULL: the file must have it */
    int64_t minimum, maximum; /* of integers */
    const char *unit;         /* "ms", "bytes"; "" for none */
    const char *help;         /* one sentence */
    size_t offset;            /* of the value in the struct */
};

/** A named section that may occur several times: region "local/main" { ... }. Its struct begins with `char
 *  title[CONFIG_TEXT_SIZE]`. */
struct config_section {
    const char *name, *help;
    const struct config_parameter *parameters;
    size_t parameter_count;
    size_t element_size, maximum;      /* maximum: elements of the array that holds them */
    size_t array_offset, count_offset; /* in the struct; the count is a size_t */
};

/** A parameter of an older version. It is refused, and the message says what to write instead. */
struct config_removed {
    const char *name, *instead;
};

struct config_form {
    const struct config_parameter *parameters;
    size_t parameter_count;
    const struct config_section *sections;
    size_t section_count;
    const struct config_removed *removed;
    size_t removed_count;
};

#define CONFIG_FIELD_TEXT(name)                                         char name[CONFIG_TEXT_SIZE];
#define CONFIG_FIELD_INTEGER(name)                                      int64_t name;
#define CONFIG_FIELD_BOOLEAN(name)                                      bool name;
#define CONFIG_FIELD(type, name, initial, minimum, maximum, unit, help) CONFIG_FIELD_##type(name)
#define CONFIG_ROW(holder, type, name, initial, minimum, maximum, unit, help) \
    {CONFIG_##type, #name, initial, minimum, maximum, unit, help, offsetof(holder, name)},

/** Sets every value to its default; a text that the file must have becomes "". `settings` is zeroed before. */
RESULT config_defaults(const struct config_form *form, void *settings, struct error *err);
/**
 * Reads the file over the defaults and reports all problems: line, parameter and the allowed values, not the file's name. A
 * parameter without a valid value keeps its default. False: the file could not be read to its end, and `settings` is not
 * usable.
 */
bool config_read_all(const struct config_form *form, const char *path, void *settings, struct problems *problems);
/** Appends a complete commented file with all defaults. */
RESULT config_write_sample(const struct config_form *form, struct buffer *text, struct error *err);
