#include "runner/serve/links.h"

#include <assert.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define SILENCE_MS 5000 /* a job says its wish at once */

static void take_out(struct links *links, size_t at)
{
    for (size_t i = at; i + 1 < links->count; i++) links->waiting[i] = links->waiting[i + 1];
    links->count--;
}

static void accept_all(struct links *links)
{
    while (links->count < LINKS_MAX) {
        const int connection = job_door_accept(links->door);
        if (connection < 0) return;
        links->waiting[links->count++] = (struct link){.connection = connection, .since_ms = clock_monotonic_ms()};
    }
}

/* Whether the job stays. */
static bool hear(struct link *link)
{
    struct error why = {0};

    if (link->wishes) return !job_is_gone(link->connection);
    switch (job_hear(link->connection, &link->wish, &why)) {
    case JOB_WISHES: link->wishes = true; return true;
    case JOB_SILENT: return clock_monotonic_ms() - link->since_ms < SILENCE_MS;
    case JOB_GONE: break;
    }
    if (why.kind == ERROR_INVALID) log_error("a job was sent away", &why);
    return false;
}

void links_look(struct links *links)
{
    if (links->door == NULL) return;
    accept_all(links);
    for (size_t i = 0; i < links->count;) {
        if (hear(&links->waiting[i])) {
            i++;
            continue;
        }
        (void)close(links->waiting[i].connection);
        take_out(links, i);
    }
}

bool links_are_waiting(const struct links *links)
{
    for (size_t i = 0; i < links->count; i++)
        if (links->waiting[i].wishes) return true;
    return false;
}

struct link links_next(struct links *links)
{
    size_t at = 0;

    assert(links_are_waiting(links));
    while (!links->waiting[at].wishes) at++;
    const struct link found = links->waiting[at];
    take_out(links, at);
    return found;
}

void links_return(struct links *links, const struct link *link)
{
    assert(links->count < LINKS_MAX);
    for (size_t i = links->count; i > 0; i--) links->waiting[i] = links->waiting[i - 1];
    links->waiting[0] = *link;
    links->count++;
}

void links_forget(struct links *links)
{
    if (links->door == NULL) return;
    (void)close(job_door_descriptor(links->door));
    for (size_t i = 0; i < links->count; i++) (void)close(links->waiting[i].connection);
}

void links_done(struct links *links)
{
    for (size_t i = 0; i < links->count; i++) job_dismiss(links->waiting[i].connection, JOB_NOTHING);
    links->count = 0;
    job_door_free(links->door);
    links->door = NULL;
}
