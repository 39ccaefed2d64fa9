#include "audit/tally_priv.h"

#include <stdio.h>
#include <string.h>

#include "audit/event_priv.h"
#include "base/json.h"
#include "base/network.h"

#define OCSF_READ 2 /* the activity of action_ocsf_type() */
#define IPV4_BITS 24
#define IPV6_BITS 56

/* A text that is not an IP address, such as "unix", stays as it is. */
static void network_of(const char *address, char network_out[TALLY_NETWORK_SIZE])
{
    struct network network;

    if (address != NULL && network_of_address(address, &network)) {
        network_widen(&network, IPV4_BITS, IPV6_BITS);
        network_write(&network, network_out);
    } else {
        (void)snprintf(network_out, TALLY_NETWORK_SIZE, "%s", address == NULL ? "unknown" : address);
    }
}

/* Action names are static, so equal names are equal pointers. */
static bool has_source(const struct tally_row *row, const struct tally_row *wanted)
{
    return strcmp(row->network, wanted->network) == 0 && strcmp(row->actor, wanted->actor) == 0;
}

static bool is_same(const struct tally_row *row, const struct tally_row *wanted)
{
    return row->action == wanted->action && strcmp(row->target, wanted->target) == 0 && has_source(row, wanted);
}

static struct tally_row *find(struct tally_row *rows, size_t count, const struct tally_row *wanted)
{
    for (size_t i = 0; i < count; i++)
        if (is_same(&rows[i], wanted)) return &rows[i];
    return NULL;
}

/* Whether a row for a new target is free for this kind of request, and the source has not used up its share. */
static bool has_room(const struct tally *tally, const struct tally_row *wanted)
{
    size_t of_source = 0, readers = 0;

    for (size_t i = 0; i < tally->target_count; i++) {
        const struct tally_row *row = &tally->targets[i];
        readers += row->only_reads;
        of_source += row->only_reads == wanted->only_reads && has_source(row, wanted);
    }
    if (tally->target_count == TALLY_TARGETS || of_source >= TALLY_PER_SOURCE) return false;
    return !wanted->only_reads || readers < TALLY_READERS;
}

static struct tally_row *target_row(struct tally *tally, const struct tally_row *wanted)
{
    struct tally_row *known = find(tally->targets, tally->target_count, wanted);

    if (known != NULL) return known;
    if (!has_room(tally, wanted)) return NULL;
    tally->targets[tally->target_count] = *wanted;
    return &tally->targets[tally->target_count++];
}

static struct tally_row *source_row(struct tally *tally, struct tally_row *wanted)
{
    wanted->target[0] = '\0';
    struct tally_row *known = find(tally->sources, tally->source_count, wanted);
    if (known != NULL) return known;
    if (tally->source_count == TALLY_SOURCES) return NULL;
    tally->sources[tally->source_count] = *wanted;
    return &tally->sources[tally->source_count++];
}

/* A request for a token changes nothing, and anybody may make one. */
static bool only_reads(const char *name)
{
    enum action action = ACTION_TOKEN_MINT;

    return !action_find(bytes_of_text(name), &action) || action == ACTION_TOKEN_MINT ||
           action_ocsf_type(action) % 100 == OCSF_READ;
}

static struct tally_row row_of(const char *action, const char *actor, const char *address, const char *target)
{
    struct tally_row row = {.action = action, .only_reads = only_reads(action)};

    network_of(address, row.network);
    (void)event_plain_text(row.actor, sizeof row.actor, actor);
    (void)event_plain_text(row.target, sizeof row.target, target[0] == '\0' ? "-" : target);
    return row;
}

bool tally_names(const struct tally *tally, const char *action, const char *actor, const char *address, const char *target)
{
    const struct tally_row wanted = row_of(action, actor, address, target);

    for (size_t i = 0; i < tally->target_count; i++)
        if (is_same(&tally->targets[i], &wanted)) return true;
    return has_room(tally, &wanted);
}

void tally_add(struct tally *tally, const char *action, const char *actor, const char *address, const char *target)
{
    struct tally_row wanted = row_of(action, actor, address, target);
    struct tally_row *row = target_row(tally, &wanted);
    if (row == NULL) row = source_row(tally, &wanted);
    if (row == NULL) tally->rest++;
    else row->count++;
}

uint64_t tally_total(const struct tally *tally)
{
    uint64_t total = tally->rest;

    for (size_t i = 0; i < tally->target_count; i++) total += tally->targets[i].count;
    for (size_t i = 0; i < tally->source_count; i++) total += tally->sources[i].count;
    return total;
}

static struct result write_row(const struct tally_row *row, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "{\"action\":\"%s\",\"actor\":\"%s\",\"count\":%llu,\"network\":", row->action, row->actor,
                      (unsigned long long)row->count));
    TRY(json_write_string(text, bytes_of_text(row->network), err));
    if (row->target[0] != '\0') {
        TRY(buffer_add_text(text, ",\"target\":", err));
        TRY(json_write_string(text, bytes_of_text(row->target), err));
    }
    return buffer_add_u8(text, '}', err);
}

static struct result write_rows(const struct tally_row *rows, size_t count, bool *is_first, struct buffer *text,
                                struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!*is_first) TRY(buffer_add_u8(text, ',', err));
        *is_first = false;
        TRY(write_row(&rows[i], text, err));
    }
    return SUCCESS;
}

struct result tally_write(const struct tally *tally, struct buffer *text, struct error *err)
{
    bool is_first = true;

    TRY(buffer_format(text, err, "{\"rest\":%llu,\"rows\":[", (unsigned long long)tally->rest));
    TRY(write_rows(tally->targets, tally->target_count, &is_first, text, err));
    TRY(write_rows(tally->sources, tally->source_count, &is_first, text, err));
    return buffer_add_text(text, "]}", err);
}
