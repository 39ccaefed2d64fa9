#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "crypto/digest.h"
#include "documents/view_priv.h"

#define STALE_MS 30000 /* equal to the limit for rights in policy/decider/decider.h */

struct result document_view_new(struct document_view **view_out, struct error *err)
{
    struct document_view *view = memory_zeroed(1, sizeof *view);

    if (view == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for signed documents");
    (void)pthread_mutex_init(&view->update_lock, NULL);
    (void)pthread_mutex_init(&view->lock, NULL);
    *view_out = view;
    return SUCCESS;
}

void document_view_free(struct document_view *view)
{
    if (view == NULL) return;
    for (size_t kind = 0; kind < DOCUMENT_KIND_COUNT; kind++) {
        for (size_t i = 0; i < view->kinds[kind].count; i++) document_free(view->kinds[kind].slots[i].document);
        free(view->kinds[kind].slots);
        free(view->kinds[kind].links);
    }
    (void)pthread_mutex_destroy(&view->lock);
    (void)pthread_mutex_destroy(&view->update_lock);
    free(view);
}

/* Policy sets are read in policy/decider/set_load.h, because rights depend on them. */
static struct result refresh_kinds(struct document_view *view, const struct document_source *source, struct error *err)
{
    for (enum document_kind kind = 0; kind < DOCUMENT_KIND_COUNT; kind++)
        if (kind != DOCUMENT_POLICY_SET) TRY(view_update_kind(view, kind, source, err));
    return SUCCESS;
}

/* A failure other than ERROR_CORRUPT leaves the result of an earlier update unchanged. */
static void note(struct document_view *view, struct result refreshed, const struct error *why, int64_t started_ms)
{
    (void)pthread_mutex_lock(&view->lock);
    if (refreshed.ok) view->checked_ms = started_ms;
    if (refreshed.ok) view->problem = (struct error){0};
    else if (why->kind == ERROR_CORRUPT) view->problem = *why;
    (void)pthread_mutex_unlock(&view->lock);
}

struct result document_view_refresh(struct document_view *view, const struct document_source *source, struct error *err)
{
    const int64_t started_ms = clock_monotonic_ms();

    (void)pthread_mutex_lock(&view->update_lock);
    const struct result refreshed = refresh_kinds(view, source, err);
    note(view, refreshed, err, started_ms);
    (void)pthread_mutex_unlock(&view->update_lock);
    return refreshed;
}

struct result document_view_update(struct document_view *view, enum document_kind kind, const struct document_source *source,
                                   struct document_reading *reading_out, struct error *err)
{
    (void)pthread_mutex_lock(&view->update_lock);
    const struct result updated = view_update_kind(view, kind, source, err);
    const struct view_kind *read = &view->kinds[kind]; /* only an update changes it */
    *reading_out = (struct document_reading){read->pin, read->read_until, read->pinned};
    (void)pthread_mutex_unlock(&view->update_lock);
    return updated;
}

/* keyd is asked each time, because keyd may have pinned a document for another gateway. */
static struct result is_current(struct document_view *view, enum document_kind kind, const struct document_source *source,
                                bool *is_current_out, struct error *err)
{
    struct keyd_documents pinned;

    TRY(keyd_ask_documents(source->keyd, &pinned, err));
    const struct document_pin *newest = &pinned.pins[document_kind(kind)->number - 1];
    (void)pthread_mutex_lock(&view->lock);
    const struct document_pin *seen = &view->kinds[kind].pin;
    *is_current_out =
        view->checked_ms != 0 && seen->epoch == newest->epoch && memcmp(seen->digest, newest->digest, sizeof seen->digest) == 0;
    (void)pthread_mutex_unlock(&view->lock);
    return SUCCESS;
}

struct result document_view_follow(struct document_view *view, enum document_kind kind, const struct document_source *source,
                                   struct error *err)
{
    bool has_newest = false;

    TRY(is_current(view, kind, source, &has_newest, err));
    return has_newest ? SUCCESS : document_view_refresh(view, source, err);
}

struct result document_view_is_sound(struct document_view *view, struct error *err)
{
    (void)pthread_mutex_lock(&view->lock);
    const struct error problem = view->problem;
    (void)pthread_mutex_unlock(&view->lock);
    return problem.kind == ERROR_NONE ? SUCCESS : failure(err, problem.kind, "%s", problem.message);
}

uint64_t document_view_unlogged(struct document_view *view)
{
    uint64_t count = 0;

    (void)pthread_mutex_lock(&view->lock);
    for (size_t kind = 0; kind < DOCUMENT_KIND_COUNT; kind++) count += view->kinds[kind].unlogged_count;
    (void)pthread_mutex_unlock(&view->lock);
    return count;
}

static int compare(const struct document *document, const char *scope, const char *name)
{
    const int order = strcmp(document->scope, scope);

    return order != 0 ? order : strcmp(document->name, name);
}

size_t view_position(const struct view_kind *view, const char *scope, const char *name, bool *is_there_out)
{
    size_t low = 0, high = view->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(view->slots[middle].document, scope, name) < 0) low = middle + 1;
        else high = middle;
    }
    *is_there_out = low < view->count && compare(view->slots[low].document, scope, name) == 0;
    return low;
}

static struct result check(const struct document_view *view, enum document_kind kind, struct error *err)
{
    if (view->kinds[kind].is_corrupt)
        return failure(err, ERROR_CORRUPT, "the database differs from what sijil-keyd has pinned of the kind %s",
                       document_kind(kind)->name);
    if (view->checked_ms != 0 && clock_monotonic_ms() - view->checked_ms <= STALE_MS) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "signed documents could not be read lately");
}

static struct result visit_range(const struct document_view *view, const struct view_range *range, document_visitor *visit,
                                 void *context, struct error *err)
{
    const struct view_kind *kind = &view->kinds[range->kind];
    bool is_there = false;

    TRY(check(view, range->kind, err));
    size_t at = view_position(kind, range->scope->name, range->after, &is_there), visited = 0;
    if (is_there) at++;
    for (size_t i = at; i < kind->count && visited < range->limit; i++) {
        const struct pinned_document pinned = {kind->slots[i].document, kind->slots[i].sequence};
        if (strcmp(pinned.document->scope, range->scope->name) != 0) break;
        if (pinned.sequence < range->scope->since) continue;
        TRY(visit(context, &pinned, err));
        visited++;
    }
    return SUCCESS;
}

struct result document_view_visit(struct document_view *view, const struct view_range *range, document_visitor *visit,
                                  void *context, struct error *err)
{
    (void)pthread_mutex_lock(&view->lock);
    const struct result visited = visit_range(view, range, visit, context, err);
    (void)pthread_mutex_unlock(&view->lock);
    return visited;
}

static struct result visit_one(const struct document_view *view, const struct view_range *one, document_visitor *visit,
                               void *context, struct error *err)
{
    const struct view_kind *kind = &view->kinds[one->kind];
    bool is_there = false;

    TRY(check(view, one->kind, err));
    const size_t at = view_position(kind, one->scope->name, one->after, &is_there);
    if (!is_there) return failure(err, ERROR_NOT_FOUND, "there is no such document");
    const struct pinned_document pinned = {kind->slots[at].document, kind->slots[at].sequence};
    if (pinned.sequence < one->scope->since) return failure(err, ERROR_NOT_FOUND, "there is no such document");
    return visit(context, &pinned, err);
}

struct result document_view_find(struct document_view *view, const struct view_range *one, document_visitor *visit, void *context,
                                 struct error *err)
{
    (void)pthread_mutex_lock(&view->lock);
    const struct result visited = visit_one(view, one, visit, context, err);
    (void)pthread_mutex_unlock(&view->lock);
    return visited;
}

static bool is_pinned(const struct view_kind *kind, uint64_t sequence)
{
    for (size_t i = kind->link_count; i > 0; i--)
        if (kind->links[i - 1].sequence == sequence) return true;
    return false;
}

static const char *why_refused(const struct view_kind *kind, uint64_t sequence)
{
    for (size_t i = 0; i < kind->refusal_count && i < VIEW_REFUSALS; i++)
        if (kind->refusals[i].sequence == sequence) return kind->refusals[i].why;
    return "another gateway knows the reason";
}

struct result document_view_check_event(struct document_view *view, enum document_kind kind, uint64_t sequence, struct error *err)
{
    struct result found = SUCCESS;

    (void)pthread_mutex_lock(&view->lock);
    if (!is_pinned(&view->kinds[kind], sequence))
        found = failure(
            err, ERROR_CONFLICT,
            "it was recorded as event %llu, but sijil-keyd has refused it, for good: %.120s. Sign it anew, and begin again",
            (unsigned long long)sequence, why_refused(&view->kinds[kind], sequence));
    (void)pthread_mutex_unlock(&view->lock);
    return found;
}

static struct result copy_links(const struct view_kind *kind, uint64_t sequence, struct document_chain *chain,
                                struct buffer *later, struct error *err)
{
    size_t at = 0;

    while (at < kind->link_count && kind->links[at].sequence != sequence) at++;
    if (at == kind->link_count)
        return failure(err, ERROR_NOT_FOUND, "no document was pinned by event %llu", (unsigned long long)sequence);
    chain->sequence = sequence;
    memcpy(chain->before, kind->links[at].before, sizeof chain->before);
    for (size_t i = at + 1; i < kind->link_count; i++) {
        TRY(buffer_add_u64(later, kind->links[i].sequence, err));
        TRY(buffer_add(later, kind->links[i].envelopes, sizeof kind->links[i].envelopes, err));
    }
    chain->later = buffer_bytes(later);
    return SUCCESS;
}

struct result document_view_chain(struct document_view *view, enum document_kind kind, uint64_t sequence,
                                  struct document_chain *chain_out, struct buffer *later, struct error *err)
{
    struct document_chain chain = {0};

    (void)pthread_mutex_lock(&view->lock);
    const struct result copied = copy_links(&view->kinds[kind], sequence, &chain, later, err);
    (void)pthread_mutex_unlock(&view->lock);
    if (copied.ok) *chain_out = chain;
    return copied;
}

/* name NULL: all */
static struct result visit_name(const struct document_view *view, enum document_kind kind, const char *name,
                                document_visitor *visit, void *context, struct error *err)
{
    const struct view_kind *whole = &view->kinds[kind];

    TRY(check(view, kind, err));
    for (size_t i = 0; i < whole->count; i++) {
        const struct pinned_document pinned = {whole->slots[i].document, whole->slots[i].sequence};
        if (name == NULL || strcmp(pinned.document->name, name) == 0) TRY(visit(context, &pinned, err));
    }
    return SUCCESS;
}

struct result document_view_read(struct document_view *view, enum document_kind kind, const struct document_visit *visit,
                                 struct error *err)
{
    const struct view_kind *whole = &view->kinds[kind];
    struct result visited = SUCCESS;

    (void)pthread_mutex_lock(&view->lock);
    for (size_t i = 0; i < whole->count && visited.ok; i++) {
        const struct pinned_document pinned = {whole->slots[i].document, whole->slots[i].sequence};
        visited = visit->visit(visit->context, &pinned, err);
    }
    (void)pthread_mutex_unlock(&view->lock);
    return visited;
}

struct result document_view_visit_name(struct document_view *view, enum document_kind kind, const char *name,
                                       document_visitor *visit, void *context, struct error *err)
{
    (void)pthread_mutex_lock(&view->lock);
    const struct result visited = visit_name(view, kind, name, visit, context, err);
    (void)pthread_mutex_unlock(&view->lock);
    return visited;
}

struct result document_view_visit_all(struct document_view *view, enum document_kind kind, document_visitor *visit, void *context,
                                      struct error *err)
{
    return document_view_visit_name(view, kind, NULL, visit, context, err);
}

static struct result find_history(const struct document_view *view, enum document_kind kind, const char *name,
                                  struct document_history *history, struct error *err)
{
    const struct view_kind *whole = &view->kinds[kind];

    TRY(check(view, kind, err));
    for (size_t i = 0; i < whole->link_count; i++) {
        if (strcmp(whole->links[i].name, name) != 0) continue;
        if (history->count == DOCUMENT_HISTORY_MAX)
            return failure(err, ERROR_LIMIT, "more than %d documents have the name %.43s", DOCUMENT_HISTORY_MAX, name);
        history->sequences[history->count++] = whole->links[i].sequence;
    }
    return SUCCESS;
}

struct result document_view_history(struct document_view *view, enum document_kind kind, const char *name,
                                    struct document_history *history_out, struct error *err)
{
    struct document_history history = {.count = 0};

    (void)pthread_mutex_lock(&view->lock);
    const struct result found = find_history(view, kind, name, &history, err);
    (void)pthread_mutex_unlock(&view->lock);
    if (found.ok) *history_out = history;
    return found;
}

static struct result find_before(const struct document_view *view, const struct view_version *wanted, uint64_t *sequence_out,
                                 struct error *err)
{
    const struct view_kind *whole = &view->kinds[DOCUMENT_TRUST_RULE];
    uint8_t scope[DOCUMENT_DIGEST_SIZE];

    TRY(check(view, DOCUMENT_TRUST_RULE, err));
    sha256_of(bytes_of_text(wanted->scope), scope);
    for (size_t i = whole->link_count; i-- > 0;) {
        const struct view_link *link = &whole->links[i];
        if (link->sequence >= wanted->before || memcmp(link->scope, scope, sizeof scope) != 0 ||
            strcmp(link->name, wanted->name) != 0)
            continue;
        *sequence_out = link->sequence;
        return SUCCESS;
    }
    return failure(err, ERROR_NOT_FOUND, "there is no trust rule %.63s", wanted->name);
}

struct result document_view_rule_before(struct document_view *view, const struct view_version *wanted, uint64_t *sequence_out,
                                        struct error *err)
{
    (void)pthread_mutex_lock(&view->lock);
    const struct result found = find_before(view, wanted, sequence_out, err);
    (void)pthread_mutex_unlock(&view->lock);
    return found;
}

bool document_is_in_force(const struct document *document, int64_t now_ms)
{
    return !document->is_withdrawn && !document->is_withdrawn_elsewhere && document->effective_ms <= now_ms &&
           (document->expires_ms == 0 || now_ms < document->expires_ms);
}
