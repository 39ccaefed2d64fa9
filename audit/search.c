#include "audit/search.h"

#include <string.h>

#include "audit/query_priv.h"
#include "audit/search_find_priv.h"
#include "base/clock.h"
#include "base/memory.h"

/* A search that runs. */
struct hunt {
    struct search_hunt by; /* with the bounds of the index and of times */
    struct search_walk *walk;
    struct walk_step step;
    uint64_t searched;
    bool is_end, is_late;
    size_t count; /* of those that meet all */
    int64_t found[AUDIT_PAGE_MAX];
    size_t candidate_count;
    int64_t candidates[AUDIT_PAGE_MAX];
};

struct result search_known(const struct permit *permit, struct pg *pg, uint64_t *known_out, uint64_t *size_out, struct error *err)
{
    (void)permit_resource(permit, ACTION_AUDIT_READ);
    return search_select_known(pg, known_out, size_out, err);
}

static bool is_inside(const struct search *search, uint64_t sequence)
{
    return sequence >= search->from && sequence < search->until;
}

/* Takes the places of a block in the order of the search, as many as there is room for. `searched` moves with it. */
static void take_places(struct hunt *hunt, size_t room)
{
    const struct search *search = hunt->by.search;

    for (unsigned i = 0; i < POSTING_BLOCK && hunt->candidate_count < room; i++) {
        const unsigned place = search->ascending ? i : POSTING_BLOCK - 1 - i;
        const uint64_t sequence = hunt->step.block * POSTING_BLOCK + place;
        const bool was_searched = search->ascending ? sequence < hunt->searched : sequence >= hunt->searched;
        if (was_searched || !is_inside(search, sequence)) continue;
        hunt->searched = search->ascending ? sequence + 1 : sequence;
        if (posting_has(&hunt->step.places, place)) hunt->candidates[hunt->candidate_count++] = (int64_t)sequence;
    }
}

/* All that is before this block, in the order of the search, is searched. */
static void pass_to(struct hunt *hunt, uint64_t block)
{
    const struct search *search = hunt->by.search;
    const uint64_t border = search->ascending ? block * POSTING_BLOCK : (block + 1) * POSTING_BLOCK;

    if (search->ascending && border > hunt->searched) hunt->searched = border < search->until ? border : search->until;
    if (!search->ascending && border < hunt->searched) hunt->searched = border > search->from ? border : search->from;
}

static bool is_past_the_end(const struct hunt *hunt)
{
    const struct search *search = hunt->by.search;

    return search->ascending ? hunt->searched >= search->until : hunt->searched <= search->from;
}

static void end(struct hunt *hunt)
{
    hunt->is_end = true;
    hunt->searched = hunt->by.search->ascending ? hunt->by.search->until : hunt->by.search->from;
}

/* One block: its places become candidates. */
static struct result look_at_next_block(struct hunt *hunt, size_t room, struct error *err)
{
    const bool ascending = hunt->by.search->ascending;

    hunt->step.block = (ascending ? hunt->searched : hunt->searched - 1) / POSTING_BLOCK;
    TRY(search_walk_next(hunt->walk, &hunt->step, err));
    if (hunt->step.is_end) {
        end(hunt);
        return SUCCESS;
    }
    pass_to(hunt, hunt->step.block);
    hunt->is_late = hunt->step.is_late;
    if (!hunt->is_late && !is_past_the_end(hunt)) {
        take_places(hunt, room);
        if (hunt->candidate_count < room) pass_to(hunt, ascending ? hunt->step.block + 1 : hunt->step.block - 1);
    }
    if (is_past_the_end(hunt)) end(hunt);
    return SUCCESS;
}

static struct result find_candidates(struct hunt *hunt, size_t room, struct error *err)
{
    hunt->candidate_count = 0;
    while (hunt->candidate_count < room && !hunt->is_end && !hunt->is_late) TRY(look_at_next_block(hunt, room, err));
    return SUCCESS;
}

/* Only the country of a client is in the facts. */
static bool needs_facts(const struct search *search)
{
    for (size_t i = 0; i < search->condition_count; i++)
        if (search->conditions[i].field == SEARCH_COUNTRY) return true;
    return false;
}

static struct result keep_those_that_meet(struct hunt *hunt, struct audit_page *page, struct error *err)
{
    bool meets = false;

    if (needs_facts(hunt->by.search)) TRY(audit_page_load_facts(page, hunt->by.source->pg, err));
    for (size_t i = 0; i < audit_page_count(page); i++) {
        TRY(search_meets(&hunt->by, page, i, &meets, err));
        if (meets) hunt->found[hunt->count++] = (int64_t)audit_page_sequence(page, i);
    }
    return SUCCESS;
}

/* The index is a hint, so a round may find fewer events than candidates; then there is another round. */
static struct result find_events(struct hunt *hunt, struct audit_page **page_out, struct error *err)
{
    size_t rounds = 0;

    while (hunt->count < hunt->by.search->limit && !hunt->is_end && !hunt->is_late) {
        OWNED(audit_page) *page = NULL;
        TRY(find_candidates(hunt, hunt->by.search->limit - hunt->count, err));
        TRY(audit_page_of_numbers(hunt->by.source->pg, hunt->candidates, hunt->candidate_count, &page, err));
        TRY(keep_those_that_meet(hunt, page, err));
        const bool is_whole = rounds++ == 0 && hunt->count == audit_page_count(page) &&
                              (hunt->count == hunt->by.search->limit || hunt->is_end || hunt->is_late);
        if (is_whole) *page_out = GIVE(page);
        if (is_whole) return SUCCESS;
    }
    return audit_page_of_numbers(hunt->by.source->pg, hunt->found, hunt->count, page_out, err);
}

/* Without a condition, for an auditor of the registry: a part of the log. */
static struct result list(struct hunt *hunt, struct audit_page **page_out, struct error *err)
{
    const struct search *search = hunt->by.search;
    const struct audit_filter filter = {
        .ascending = search->ascending, .from = search->from, .until = search->until, .limit = search->limit};

    TRY(audit_list(hunt->by.permit, hunt->by.source->pg, &filter, page_out, err));
    const size_t count = audit_page_count(*page_out);
    if (count < search->limit) end(hunt);
    else hunt->searched = audit_page_sequence(*page_out, count - 1) + (search->ascending ? 1 : 0);
    return SUCCESS;
}

static struct result run(struct hunt *hunt, struct audit_page **page_out, struct error *err)
{
    const struct search *search = hunt->by.search;

    TRY(search_walk_new(hunt->by.source->pg, search->ascending, &hunt->walk, err));
    TRY(search_add_groups(hunt->by.permit, hunt->by.source, search, hunt->walk, err));
    hunt->step.until_ms = clock_monotonic_ms() + search->budget_ms;
    hunt->searched = search->ascending ? search->from : search->until;
    if (search->from >= search->until) end(hunt);
    if (search_walk_is_free(hunt->walk) && !hunt->is_end) return list(hunt, page_out, err);
    return find_events(hunt, page_out, err);
}

/* The bounds in numbers: those that were asked for, of the index, and of the times. */
static struct result bound(const struct search_source *source, struct search *search, uint64_t known, struct error *err)
{
    uint64_t first = 0, last = known;

    if (search->since_ms > 0) TRY(search_entry_at(source->pg, search->since_ms, known, &first, err));
    if (search->until_ms < INT64_MAX) TRY(search_entry_at(source->pg, search->until_ms, known, &last, err));
    if (search->from < first) search->from = first;
    if (search->until > last) search->until = last;
    if (search->from > search->until) search->from = search->until;
    return SUCCESS;
}

static struct result search_within(struct hunt *hunt, struct search *search, struct audit_page **page_out,
                                   struct search_progress *progress, struct error *err)
{
    uint64_t size = 0;

    TRY(search_known(hunt->by.permit, hunt->by.source->pg, &progress->known, &size, err));
    TRY(bound(hunt->by.source, search, progress->known, err));
    const bool ends_before = search->until < progress->known;
    progress->wanted = ends_before && progress->known < search->size ? progress->known : search->size;
    const struct result result = run(hunt, page_out, err);
    search_walk_free(hunt->walk);
    progress->searched = hunt->searched;
    progress->is_done = hunt->is_end;
    return result;
}

struct result search_run(const struct permit *permit, const struct search_source *source, const struct search *search,
                         struct audit_page **page_out, struct search_progress *progress_out, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct search_progress progress = {.known = 0};

    if (search->limit == 0 || search->limit > AUDIT_PAGE_MAX || search->from > INT64_MAX || search->until > INT64_MAX)
        return failure(err, ERROR_INVALID, "a page has 1 to %d events", AUDIT_PAGE_MAX - 1);
    struct hunt *hunt = memory_zeroed(1, sizeof *hunt);
    struct search *bounded = memory_zeroed(1, sizeof *bounded);
    struct result result = hunt == NULL || bounded == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a search") : SUCCESS;
    if (result.ok) {
        *bounded = *search;
        *hunt = (struct hunt){.by = {permit, source, bounded}};
        result = search_within(hunt, bounded, &page, &progress, err);
    }
    free(hunt);
    free(bounded);
    TRY(result);
    *page_out = GIVE(page);
    *progress_out = progress;
    return SUCCESS;
}
