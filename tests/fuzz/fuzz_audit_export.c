/* A file that a stranger calls an export: line by line, without a key, so that what follows the signature is reached. */
#include <assert.h>
#include <string.h>

#include "audit/format/export_check.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_report(const struct export_report *report)
{
    struct buffer OWNED_BUFFER text = BUFFER(65536), json = BUFFER(65536);
    OWNED_JSON value = NULL;
    struct error err = {0};

    assert(report->closing < report->checkpoint.size && !report->is_signed && report->opened <= report->events);
    assert(export_report_text(report, &text, &err).ok && export_report_json(report, &json, &err).ok);
    assert(json_read(buffer_bytes(&json), 65536, &value, &err).ok && json_is_object(value));
}

/* The result does not depend on the pieces in which the file comes. */
static bool check(const uint8_t *data, size_t size, size_t step, struct export_report *report)
{
    OWNED(export_check) *check = NULL;
    struct error err = {0};

    assert(export_check_new(&(struct proof_trust){.policy = NULL}, &check, &err).ok);
    for (size_t at = 0; at < size; at += step)
        if (!export_check_bytes(check, (struct bytes){data + at, size - at < step ? size - at : step}, &err).ok) {
            assert(err.kind != ERROR_NONE && err.message[0] != '\0');
            return false;
        }
    return export_check_end(check, report, &err).ok;
}

/* Each line by itself, in each format. */
static void read_lines(const uint8_t *data, size_t size)
{
    struct export_text text = EXPORT_TEXT;
    static struct leaf leaf;
    struct export_line line;
    struct error err = {0};

    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        const size_t length = end == NULL ? size : (size_t)(end - data);
        for (unsigned format = 0; format < EXPORT_FORMAT_COUNT; format++)
            if (export_line_read((enum export_format)format, (struct bytes){data, length}, &text, &line, &leaf, &err).ok)
                assert(line.leaf.length > 0 && leaf.key_count > 0);
        const size_t used = length + (end == NULL ? 0 : 1);
        data += used;
        size -= used;
    }
    export_text_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct export_report whole, pieces;

    const bool is_complete = check(data, size, size + 1, &whole);
    assert(check(data, size, 7, &pieces) == is_complete);
    if (is_complete) check_report(&whole);
    read_lines(data, size);
    return 0;
}
