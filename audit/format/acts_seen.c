#include "audit/format/acts_seen.h"

#include <string.h>

/* Two good times of one signature are at most this far apart: each is near the time of the signature, in whole seconds. */
#define KEPT_MS (((int64_t)2 * SIGNED_ACT_LATE_S + 1) * 1000)

struct act_seen {
    struct signed_act_id id;
    char request[sizeof((struct leaf *)NULL)->request];
    bool was_done; /* an event that was not denied has it */
    int64_t time_ms;
};

void acts_seen_init(struct acts_seen *seen, size_t most)
{
    *seen = (struct acts_seen){.most = most, .each = BUFFER(most * sizeof(struct act_seen))};
}

void acts_seen_done(struct acts_seen *seen)
{
    buffer_done(&seen->each);
}

static struct act_seen *at(const struct acts_seen *seen, size_t place)
{
    return (struct act_seen *)(void *)(seen->each.data + place * sizeof(struct act_seen));
}

static size_t count_of(const struct acts_seen *seen)
{
    return seen->each.length / sizeof(struct act_seen);
}

/* The log's times do not fall. The room of old ones is used again once they are half of all. */
static void forget_old(struct acts_seen *seen, int64_t now_ms)
{
    const size_t count = count_of(seen);

    while (seen->first < count && at(seen, seen->first)->time_ms + KEPT_MS < now_ms) seen->first++;
    if (seen->first == 0 || seen->first < count / 2) return;
    const size_t left = (count - seen->first) * sizeof(struct act_seen);
    memmove(seen->each.data, at(seen, seen->first), left);
    buffer_truncate(&seen->each, left);
    seen->first = 0;
}

static struct act_seen *find(const struct acts_seen *seen, const struct signed_act_id *id)
{
    const size_t count = count_of(seen);

    for (size_t i = seen->first; i < count; i++)
        if (memcmp(&at(seen, i)->id, id, sizeof *id) == 0) return at(seen, i);
    return NULL;
}

struct result acts_seen_add(struct acts_seen *seen, const struct leaf *leaf, const struct signed_act_id *id, const char **why_out,
                            struct error *err)
{
    const bool was_done = strcmp(leaf->outcome, "denied") != 0;
    struct act_seen new = {.id = *id, .was_done = was_done, .time_ms = leaf->time_ms};

    *why_out = NULL;
    forget_old(seen, leaf->time_ms);
    struct act_seen *old = find(seen, id);
    if (old != NULL && strcmp(old->request, leaf->request) != 0)
        *why_out = "the signature of the event is that of an earlier request, too: it stands for one alone";
    else if (old != NULL && old->was_done && was_done)
        *why_out = "an earlier event has the same signature of the same request: it stands for one act alone";
    if (old != NULL) old->was_done = old->was_done || was_done;
    if (old != NULL) return SUCCESS;
    if (count_of(seen) == seen->most) *why_out = "too many signed requests in half an hour: whether one came twice is not known";
    memcpy(new.request, leaf->request, sizeof new.request);
    return *why_out == NULL ? buffer_add(&seen->each, &new, sizeof new, err) : SUCCESS;
}
