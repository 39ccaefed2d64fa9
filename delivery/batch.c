#include "delivery/batch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/export.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/secret.h"

#define MEMO 16 /* names that were decided last, in one batch: few events name more */

/* Decisions of one batch. They are made anew for the next one. */
struct memo {
    size_t count, oldest;
    struct {
        char name[LEAF_NAME_MAX + 1];
        bool delivers;
    } entries[MEMO];
};

struct filling {
    struct delivery_batch *batch;
    const struct delivery_source *source;
    int64_t now_ms;
    struct memo memo;
};

struct result delivery_batch_new(struct delivery_batch **batch_out, struct error *err)
{
    struct delivery_batch *batch = memory_zeroed(1, sizeof *batch);

    if (batch == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for deliveries");
    batch->text = BUFFER(DELIVERY_BYTES_MAX);
    *batch_out = batch;
    return SUCCESS;
}

void delivery_batch_free(struct delivery_batch *batch)
{
    if (batch == NULL) return;
    secret_wipe(batch->text.data, batch->text.length);
    buffer_done(&batch->text);
    free(batch);
}

struct bytes delivery_batch_text(const struct delivery_batch *batch, size_t index)
{
    assert(index < batch->count);
    return (struct bytes){batch->text.data + batch->messages[index].offset, batch->messages[index].length};
}

/* ---- deciding ---- */

static struct result decide_name(struct filling *filling, const char *name, bool *delivers, struct error *err)
{
    struct memo *memo = &filling->memo;

    for (size_t i = 0; i < memo->count; i++)
        if (strcmp(memo->entries[i].name, name) == 0) {
            *delivers = memo->entries[i].delivers;
            return SUCCESS;
        }
    const size_t at = memo->count < MEMO ? memo->count++ : memo->oldest++ % MEMO;
    memo->entries[at].name[0] = '\0';
    memo->entries[at].delivers = false;
    struct error limit = {0};
    if (!decider_delivers(filling->source->decider, name, filling->source->sink->region, filling->now_ms, delivers, &limit).ok) {
        if (limit.kind != ERROR_LIMIT) return failure(err, limit.kind, "%s", limit.message);
        *delivers = false; /* an evaluation that exceeds a limit denies */
    }
    (void)snprintf(memo->entries[at].name, sizeof memo->entries[at].name, "%s", name);
    memo->entries[at].delivers = *delivers;
    return SUCCESS;
}

/* NAMES_UNKNOWN: the word does not tell what is named. A detail is cut at its longest, also within a name; and nothing has a name with a colon. */
enum naming { NAMES_NOTHING, NAMES_UNKNOWN, NAMES_ONE };

/* What is behind the beginning; nothing: the word begins with something else. */
static struct bytes behind(struct bytes word, const char *beginning)
{
    const size_t length = strlen(beginning);

    if (word.length <= length || memcmp(word.data, beginning, length) != 0) return (struct bytes){NULL, 0};
    return (struct bytes){word.data + length, word.length - length};
}

/* What a word of a detail names: of a token's scope ("repository:acme/models/digits:pull"), or of the key of an export ("res:acme/models/digits"). */
static enum naming name_in(struct bytes word, struct bytes *name_out)
{
    static const char *const keys[] = {"org:", "prj:", "res:"};
    struct bytes actions = behind(word, "repository:");

    if (actions.length > 0) {
        *name_out = text_cut(&actions, ':');
        const bool is_whole = name_out->length > 0 && actions.length > 0 && memchr(actions.data, ':', actions.length) == NULL;
        return is_whole ? NAMES_ONE : NAMES_UNKNOWN;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        *name_out = behind(word, keys[i]);
        if (name_out->length > 0) return NAMES_ONE;
    }
    return NAMES_NOTHING;
}

/* Behind the word "rule" of a token comes its trust rule, "acme/models:NAME", or ":NAME" for one of the registry. */
static enum naming name_in_rule(struct bytes word, struct bytes *name_out)
{
    const bool is_rule = word.length > 0 && memchr(word.data, ':', word.length) != NULL;

    *name_out = text_cut(&word, ':');
    return is_rule && name_out->length > 0 ? NAMES_ONE : NAMES_NOTHING;
}

/* These events are the registry's own ones, and yet they name what others have. */
static struct result decide_detail(struct filling *filling, const char *detail, bool *delivers, struct error *err)
{
    struct bytes left = bytes_of_text(detail), before = {NULL, 0};

    while (left.length > 0 && *delivers) {
        const struct bytes word = text_cut(&left, ' ');
        const bool is_rule = bytes_equal(before, bytes_of_text("rule"));
        struct bytes found;
        char name[LEAF_NAME_MAX + 1];
        const enum naming naming = is_rule ? name_in_rule(word, &found) : name_in(word, &found);
        before = word;
        if (naming == NAMES_NOTHING) continue;
        *delivers = naming == NAMES_ONE && found.length < sizeof name;
        if (!*delivers) return SUCCESS;
        memcpy(name, found.data, found.length);
        name[found.length] = '\0';
        TRY(decide_name(filling, name, delivers, err));
    }
    return SUCCESS;
}

static struct result decide_target(struct filling *filling, const char *resource, bool shows_detail, bool *delivers,
                                   struct error *err)
{
    const size_t length = strcspn(resource, "#");
    char name[LEAF_NAME_MAX + 1];

    if (length >= sizeof name) return failure(err, ERROR_CORRUPT, "an entry of the log names more than %d bytes", LEAF_NAME_MAX);
    memcpy(name, resource, length);
    name[length] = '\0';
    TRY(decide_name(filling, name, delivers, err));
    return *delivers && shows_detail && resource[length] == '#' ? decide_detail(filling, resource + length + 1, delivers, err)
                                                                : SUCCESS;
}

static struct result decide(struct filling *filling, const struct leaf *leaf, bool *delivers_out, struct error *err)
{
    static const unsigned hiding = 1U << SINK_HIDES_DETAIL | 1U << SINK_HIDES_RESOURCE;
    const struct audit_sink *sink = filling->source->sink;
    enum sink_class class = SINK_CLASS_COUNT;
    bool delivers = sink_class_find(leaf->class_uid / 100, &class) && (sink->classes >> class & 1) != 0;

    for (size_t i = 0; i < leaf->target_count && delivers; i++)
        TRY(decide_target(filling, leaf->targets[i].resource, (sink->hides[class] & hiding) == 0, &delivers, err));
    *delivers_out = delivers;
    return SUCCESS;
}

/* ---- rendering ---- */

static struct delivery_message *add(struct delivery_batch *batch, uint64_t sequence, int64_t time_ms)
{
    assert(batch->count < DELIVERY_EVENTS_MAX);
    struct delivery_message *message = &batch->messages[batch->count++];
    *message = (struct delivery_message){.first = sequence, .last = sequence, .time_ms = time_ms, .offset = batch->text.length};
    return message;
}

/* Numbers that follow each other are one message. */
static struct result withhold(struct filling *filling, uint64_t sequence, struct error *err)
{
    struct delivery_batch *batch = filling->batch;
    struct delivery_message *message = batch->count == 0 ? NULL : &batch->messages[batch->count - 1];

    if (message == NULL || !message->is_withheld) message = add(batch, sequence, filling->now_ms);
    message->is_withheld = true;
    message->last = sequence;
    batch->withheld++;
    buffer_truncate(&batch->text, message->offset);
    TRY(delivery_withheld_write(message->first, message->last, &batch->text, err));
    message->length = batch->text.length - message->offset;
    return SUCCESS;
}

/* A payload that was erased, or that is damaged, stays sealed. */
static struct result open_payload(const struct delivery_source *source, struct audit_page *page, size_t index,
                                  struct buffer *payload, struct error *err)
{
    if (source->sink->purpose == NULL) return SUCCESS;
    const struct result opened = audit_page_payload(page, index, source->keyd, source->origin, payload, err);
    if (opened.ok || (err->kind != ERROR_CORRUPT && err->kind != ERROR_LIMIT)) return opened;
    buffer_clear(payload);
    return SUCCESS;
}

static struct result deliver(struct filling *filling, struct audit_page *page, size_t index, const struct leaf *leaf,
                             struct error *err)
{
    struct delivery_batch *batch = filling->batch;
    struct buffer OWNED_BUFFER payload = BUFFER(EXPORT_PAYLOAD_MAX);
    struct delivery_event event = {filling->source->sink, filling->source->log_name, leaf, audit_page_leaf(page, index), {0}};

    TRY(open_payload(filling->source, page, index, &payload, err));
    event.payload = buffer_bytes(&payload);
    struct delivery_message *message = add(batch, leaf->sequence, leaf->time_ms);
    message->has_failed = strcmp(leaf->outcome, "denied") == 0 || strcmp(leaf->outcome, "failed") == 0;
    const struct result written = delivery_message_write(&event, &batch->text, err);
    if (payload.length > 0) batch->opened++;
    if (payload.data != NULL) secret_wipe(payload.data, payload.length);
    message->length = batch->text.length - message->offset;
    return written;
}

static struct result add_entry(struct filling *filling, struct audit_page *page, size_t index, struct error *err)
{
    const uint64_t sequence = audit_page_sequence(page, index);
    bool delivers = false;
    struct leaf leaf;

    if (!audit_page_is_readable(page, index)) return withhold(filling, sequence, err);
    TRY(leaf_read(audit_page_leaf(page, index), &leaf, err));
    TRY(decide(filling, &leaf, &delivers, err));
    return delivers ? deliver(filling, page, index, &leaf, err) : withhold(filling, sequence, err);
}

static bool has_room(const struct delivery_batch *batch)
{
    return batch->text.length + DELIVERY_MESSAGE_MAX <= batch->text.maximum;
}

static struct result fill(struct filling *filling, struct audit_page *page, struct error *err)
{
    struct delivery_batch *batch = filling->batch;

    for (size_t i = 0; i < audit_page_count(page) && has_room(batch); i++) {
        TRY(add_entry(filling, page, i, err));
        batch->next = audit_page_sequence(page, i) + 1;
    }
    return SUCCESS;
}

struct result delivery_batch_fill(struct delivery_batch *batch, const struct delivery_source *source,
                                  const struct signed_checkpoint *checkpoint, const struct audit_span *span, struct error *err)
{
    const uint64_t all = span->until - span->from, some = all < DELIVERY_EVENTS_MAX ? all : DELIVERY_EVENTS_MAX;
    const struct audit_span first = {span->from, span->from + some};
    struct filling filling = {.batch = batch, .source = source, .now_ms = clock_wall_ms()};
    OWNED(audit_page) *page = NULL;

    if (batch->text.length > 0) secret_wipe(batch->text.data, batch->text.length);
    buffer_clear(&batch->text);
    batch->from = batch->next = span->from;
    batch->count = batch->opened = 0;
    batch->withheld = 0;
    TRY(audit_follow(source->pg, checkpoint, &first, &page, err));
    return fill(&filling, page, err);
}
