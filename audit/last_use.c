#include "audit/last_use.h"

#include <string.h>

#include "audit/event_priv.h"
#include "audit/query_priv.h"
#include "audit/search_find_priv.h"
#include "audit/subject_priv.h"
#include "base/clock.h"

#define PIECE 16 /* candidates that are read at a time: mostly the first is the one */

/* A search for the last use of one role. */
struct hunt {
    const struct search_source *source;
    const struct role_use *role;
    char actor[65];
    enum search_field field; /* of the scope */
    char scope[RESOURCE_NAME_MAX + 1];
    struct search_walk *walk;
    struct walk_step step;
    size_t count;
    int64_t candidates[PIECE];
    size_t looked; /* candidates that did not fit */
    struct last_use use;
};

struct result last_use_known(const struct permit *permit, struct pg *pg, uint64_t *known_out, uint64_t *size_out,
                             struct error *err)
{
    (void)permit_resource(permit, ACTION_ACCESS_REVIEW);
    return search_select_known(pg, known_out, size_out, err);
}

static bool is_action_permitted(const struct hunt *hunt, const char *name)
{
    enum action action;

    return action_find(bytes_of_text(name), &action) && hunt->role->permits[action];
}

static bool is_use(const struct hunt *hunt, const struct leaf *leaf)
{
    struct search_terms terms;
    bool is_permitted = false;

    if (strcmp(leaf->actor, hunt->actor) != 0) return false;
    if (strcmp(leaf->outcome, "allowed") != 0 && strcmp(leaf->outcome, "completed") != 0) return false;
    for (size_t i = 0; i < leaf->target_count; i++) is_permitted |= is_action_permitted(hunt, leaf->targets[i].action);
    search_terms_of(leaf, &terms);
    return is_permitted &&
           (hunt->scope[0] == '\0' || search_terms_have(&terms, search_key(hunt->field, bytes_of_text(hunt->scope))));
}

/* The index is a hint, so each candidate is compared with its leaf. */
static struct result look_at_candidates(struct hunt *hunt, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct leaf leaf;

    if (hunt->count == 0) return SUCCESS;
    TRY(audit_page_of_numbers(hunt->source->pg, hunt->candidates, hunt->count, &page, err));
    hunt->looked += hunt->count;
    hunt->count = 0;
    for (size_t i = 0; i < audit_page_count(page) && !hunt->use.is_used; i++) {
        if (!audit_page_is_readable(page, i)) continue;
        TRY(leaf_read(audit_page_leaf(page, i), &leaf, err));
        if (is_use(hunt, &leaf))
            hunt->use = (struct last_use){.is_used = true, .sequence = leaf.sequence, .wall_ms = leaf.time_ms};
    }
    return SUCCESS;
}

/* The places of one block, the newest first. */
static struct result look_at_block(struct hunt *hunt, size_t most, struct error *err)
{
    for (unsigned place = POSTING_BLOCK; place-- > 0 && !hunt->use.is_used && hunt->looked < most;) {
        if (!posting_has(&hunt->step.places, place)) continue;
        hunt->candidates[hunt->count++] = (int64_t)(hunt->step.block * POSTING_BLOCK + place);
        if (hunt->count == PIECE) TRY(look_at_candidates(hunt, err));
    }
    return look_at_candidates(hunt, err);
}

static void add_group(struct hunt *hunt, enum search_field field, const char *value)
{
    search_walk_add(hunt->walk, &(struct posting_key){.key = search_key(field, bytes_of_text(value))}, 1);
}

/* *is_over_out false: `most` candidates did not fit, and there may be older ones. */
static struct result walk(struct hunt *hunt, uint64_t known, size_t most, bool *is_over_out, struct error *err)
{
    hunt->looked = 0;
    hunt->step.block = known / POSTING_BLOCK;
    *is_over_out = false;
    while (!hunt->use.is_used && hunt->looked < most) {
        TRY(search_walk_next(hunt->walk, &hunt->step, err));
        hunt->use.is_late = hunt->step.is_late;
        *is_over_out = hunt->step.is_end || hunt->step.is_late;
        if (*is_over_out) return SUCCESS;
        TRY(look_at_block(hunt, most, err));
        *is_over_out = hunt->step.block == 0;
        if (hunt->step.block-- == 0) return SUCCESS;
    }
    return SUCCESS;
}

static struct result walk_with(struct hunt *hunt, const struct posting_key *actions, size_t count, uint64_t known,
                               bool *is_over_out, struct error *err)
{
    TRY(search_walk_new(hunt->source->pg, false, &hunt->walk, err));
    add_group(hunt, SEARCH_ACTOR, hunt->actor);
    if (hunt->scope[0] != '\0') add_group(hunt, hunt->field, hunt->scope);
    if (count > 0) search_walk_add(hunt->walk, actions, count);
    const struct result walked = walk(hunt, known, count > 0 ? SIZE_MAX : 4 * PIECE, is_over_out, err);
    search_walk_free(hunt->walk);
    hunt->walk = NULL;
    return walked;
}

/* Whoever does much there by another role: only events of these actions, some actions at a time. */
static struct result walk_by_actions(struct hunt *hunt, uint64_t known, struct error *err)
{
    struct posting_key keys[WALK_KEYS_MAX];
    struct last_use newest = {.is_used = false};
    size_t count = 0;
    bool is_over = false;

    for (enum action action = 0; action < ACTION_COUNT; action++) {
        if (hunt->role->permits[action])
            keys[count++] = (struct posting_key){.key = search_key(SEARCH_ACTION, bytes_of_text(action_name(action)))};
        if (count == 0 || (count < WALK_KEYS_MAX && action + 1 < ACTION_COUNT)) continue;
        hunt->use.is_used = false;
        TRY(walk_with(hunt, keys, count, known, &is_over, err));
        if (hunt->use.is_late) return SUCCESS;
        if (hunt->use.is_used && (!newest.is_used || hunt->use.sequence > newest.sequence)) newest = hunt->use;
        count = 0;
    }
    hunt->use = newest;
    return SUCCESS;
}

/* False: the subject never acted, or was erased. */
static struct result find_actor(struct hunt *hunt, bool *is_there_out, struct error *err)
{
    const char *const names[2] = {hunt->role->issuer[0] == '\0' ? REGISTRY_ISSUER : hunt->role->issuer, hunt->role->subject};
    OWNED(secret) *key = NULL;
    const struct result found = subject_key_find(hunt->source->keyd, hunt->source->pg, names, false, &key, err);

    *is_there_out = found.ok;
    if (found.ok) subject_pseudonym(names, key, hunt->actor);
    return found.ok || err->kind == ERROR_NOT_FOUND ? SUCCESS : found;
}

static void take_scope(struct hunt *hunt)
{
    const struct resource *scope = hunt->role->scope;
    size_t length = scope->kind == RESOURCE_SYSTEM ? 0 : strlen(scope->name);
    const bool is_path = length >= 2 && strcmp(scope->name + length - 2, "/*") == 0;

    hunt->field = scope->kind == RESOURCE_REPOSITORY && !is_path ? SEARCH_RESOURCE : SEARCH_PREFIX;
    if (is_path) length -= 2;
    memcpy(hunt->scope, scope->name, length);
    hunt->scope[length] = '\0';
}

struct result audit_last_use(const struct permit *permit, const struct search_source *source, const struct role_use *role,
                             struct last_use *use_out, struct error *err)
{
    struct hunt hunt = {.source = source, .role = role, .step = {.until_ms = clock_monotonic_ms() + LAST_USE_MS}};
    bool is_there = false, is_over = false;
    uint64_t known = 0, size = 0;

    permit_require_above(permit, ACTION_ACCESS_REVIEW, role->scope);
    TRY(last_use_known(permit, source->pg, &known, &size, err));
    TRY(find_actor(&hunt, &is_there, err));
    take_scope(&hunt);
    if (is_there) TRY(walk_with(&hunt, NULL, 0, known, &is_over, err));
    if (is_there && !is_over && !hunt.use.is_used) TRY(walk_by_actions(&hunt, known, err));
    *use_out = hunt.use;
    return SUCCESS;
}
