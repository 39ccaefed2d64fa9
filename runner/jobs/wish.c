#include "runner/jobs/wish.h"

#include <string.h>

#include "base/text.h"

#define ATTEMPT_MAX 100 /* docs/formats/run.md */
#define MINOR_MAX   1023

static struct result wrong(const char *what, struct error *err)
{
    return failure(err, ERROR_INVALID, "a job names %s", what);
}

static struct result read_devices(struct bytes list, struct job_wish *wish, struct error *err)
{
    uint64_t number = 0;

    wish->names_devices = true;
    if (list.length == 0 || list.data[list.length - 1] == ',') return wrong("devices by their numbers, with commas between", err);
    while (list.length > 0) {
        if (wish->device_count == DEVICES_MAX) return wrong("at most 64 devices", err);
        if (!text_to_u64(text_cut(&list, ','), MINOR_MAX, &number))
            return wrong("devices by their numbers, with commas between", err);
        wish->minors[wish->device_count++] = (unsigned)number;
    }
    return SUCCESS;
}

static size_t count_blanks(struct bytes line)
{
    size_t count = 0;

    for (size_t i = 0; i < line.length; i++) count += line.data[i] == ' ' ? 1 : 0;
    return count;
}

struct result job_wish_read(struct bytes line, struct job_wish *wish_out, struct error *err)
{
    struct job_wish wish = {.attempt = 0};
    const size_t blanks = count_blanks(line);
    struct uuid run;
    uint64_t attempt = 0;

    if (line.length > WISH_MAX || blanks < 1 || blanks > 2) return wrong("a run, an attempt, and maybe devices", err);
    const struct bytes id = text_cut(&line, ' ');
    if (!uuid_parse(id, &run)) return wrong("a run by its UUID", err);
    if (!text_to_u64(text_cut(&line, ' '), ATTEMPT_MAX, &attempt) || attempt == 0) return wrong("an attempt from 1 to 100", err);
    if (blanks == 2) TRY(read_devices(line, &wish, err));
    uuid_format(&run, wish.run);
    wish.attempt = (int)attempt;
    *wish_out = wish;
    return SUCCESS;
}

struct result job_wish_write(const char *run, const char *attempt, const char *devices, struct buffer *line, struct error *err)
{
    struct job_wish wish;

    TRY(buffer_format(line, err, "%.40s %.10s%s%.400s", run, attempt, devices == NULL ? "" : " ",
                      devices == NULL ? "" : devices));
    TRY(job_wish_read(buffer_bytes(line), &wish, err));
    if (strcmp(wish.run, run) == 0 && wish.names_devices == (devices != NULL)) return SUCCESS;
    return wrong("a run and an attempt, each without a blank", err);
}

bool job_wish_allows(const struct job_wish *wish, unsigned minor)
{
    if (!wish->names_devices) return true;
    for (size_t i = 0; i < wish->device_count; i++)
        if (wish->minors[i] == minor) return true;
    return false;
}
