/* What is stored: repositories that could not stay in their region, and pins whose policy would be lost. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "crypto/digest.h"
#include "planning/plan_priv.h"

#define REPOSITORIES_OF_PAGE 500
#define REPOSITORIES_SHOWN   200
#define KEPT_MAX             20000 /* of unplaceable repositories in memory */
#define LABEL_MAX            ((size_t)16 * 1024)

struct stock {
    struct planning *planning;
    uint64_t repositories, manifests, total;
    uint64_t unplaceable, unplaceable_manifests, unplaceable_bytes, placeable;
    json_t *rows, *pins; /* by name */
    struct hasher *hasher;
};

/* ---- one repository ---- */

struct place {
    struct uuid id;
    const char *name, *region;
    uint64_t manifests;
};

/* The digest of the inventory is over these lines, in the order of the ids. */
static struct result measure(struct stock *stock, const struct place *place, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(LABEL_MAX + 1024);
    char id[UUID_TEXT_SIZE];

    uuid_format(&place->id, id);
    TRY(buffer_format(&line, err, "%s %s %llu ", id, place->region, (unsigned long long)place->manifests));
    TRY(policy_plan_label(stock->planning->plan, place->name, &line, err));
    TRY(buffer_add_u8(&line, '\n', err));
    hasher_add(stock->hasher, buffer_bytes(&line));
    stock->repositories++;
    stock->manifests += place->manifests;
    return SUCCESS;
}

/* Beyond KEPT_MAX they are counted, and not shown. */
static struct result keep(struct stock *stock, const struct place *place, const struct plan_answer *answer, uint64_t bytes,
                          struct error *err)
{
    OWNED_JSON regions = json_array();

    if (json_object_size(stock->rows) == KEPT_MAX) return SUCCESS;
    if (regions == NULL) return planning_no_memory(err);
    TRY(policy_plan_regions(stock->planning->plan, place->name, regions, err));
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:O}", "repository", place->name, "region", place->region,
                            "operation", answer->operation, "rule", answer->rule, "policy", answer->policy, "manifests",
                            (json_int_t)place->manifests, "bytes", (json_int_t)bytes, "regions", regions);
    return row != NULL && json_object_set_new(stock->rows, place->name, row) == 0 ? SUCCESS : planning_no_memory(err);
}

static struct result add_unplaceable(struct stock *stock, const struct place *place, const struct plan_answer *answer,
                                     struct error *err)
{
    uint64_t bytes = 0;

    TRY(plan_repository_bytes(stock->planning->source->pg, &place->id, &bytes, err));
    stock->unplaceable++;
    stock->unplaceable_manifests += place->manifests;
    stock->unplaceable_bytes += bytes;
    return keep(stock, place, answer, bytes, err);
}

static struct result add_pin(struct stock *stock, const struct place *place, const char *policy, struct error *err)
{
    json_t *row = json_object_get(stock->pins, policy);

    if (row == NULL) {
        row = json_pack("{s:s, s:I, s:I, s:[]}", "policy", policy, "repositories", (json_int_t)0, "manifests", (json_int_t)0,
                        "examples");
        if (row == NULL || json_object_set_new(stock->pins, policy, row) != 0) return planning_no_memory(err);
    }
    json_t *repositories = json_object_get(row, "repositories"), *manifests = json_object_get(row, "manifests");
    json_t *examples = json_object_get(row, "examples");
    if (json_integer_set(repositories, json_integer_value(repositories) + 1) != 0 ||
        json_integer_set(manifests, json_integer_value(manifests) + (json_int_t)place->manifests) != 0 ||
        (json_array_size(examples) < PLAN_EXAMPLES && json_array_append_new(examples, json_string(place->name)) != 0))
        return planning_no_memory(err);
    return SUCCESS;
}

static struct result look_at(struct stock *stock, const struct place *place, struct error *err)
{
    struct plan_answer answer;
    struct plan_pins pins;

    stock->planning->there = place->name;
    TRY(measure(stock, place, err));
    TRY(policy_plan_place(stock->planning->plan, place->name, place->region, &answer, err));
    if (answer.change == PLAN_NEWLY_DENIED && place->manifests > 0) TRY(add_unplaceable(stock, place, &answer, err));
    if (answer.change == PLAN_NEWLY_ALLOWED) stock->placeable++;
    TRY(policy_plan_pins(stock->planning->plan, place->name, &pins, err));
    for (size_t i = 0; i < pins.count; i++) TRY(add_pin(stock, place, pins.each[i], err));
    return SUCCESS;
}

/* ---- all ---- */

static struct result look_at_page(struct stock *stock, struct uuid *after, bool *has_more_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(plan_repositories(stock->planning->source->pg, after, REPOSITORIES_OF_PAGE, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct place place = {pg_uuid(rows, i, 0), pg_text(rows, i, 1), pg_text(rows, i, 2), (uint64_t)pg_int8(rows, i, 3)};
        *after = place.id;
        if (planning_goes_on(stock->planning, PLAN_OF_CONTENT, stock->repositories, stock->total))
            TRY(look_at(stock, &place, err));
    }
    stock->planning->there = NULL; /* a view of the rows */
    *has_more_out = pg_rows_count(rows) == REPOSITORIES_OF_PAGE && !stock->planning->is_stopped;
    return SUCCESS;
}

static struct result describe(struct stock *stock, struct error *err)
{
    const struct digest digest = hasher_digest(stock->hasher);
    char text[DIGEST_TEXT_SIZE];
    OWNED_JSON rows = json_array();
    OWNED_JSON pins = json_array();

    digest_format(&digest, text);
    TRY(plan_write_largest(stock->rows, "bytes", REPOSITORIES_SHOWN, rows, err));
    TRY(plan_write_largest(stock->pins, "repositories", LABEL_PINS_MAX, pins, err));
    TRY(planning_set(stock->planning, "unplaceable",
                     json_pack("{s:I, s:I, s:I, s:O}", "repositories", (json_int_t)stock->unplaceable, "manifests",
                               (json_int_t)stock->unplaceable_manifests, "bytes", (json_int_t)stock->unplaceable_bytes, "rows",
                               rows),
                     err));
    TRY(planning_set(stock->planning, "pins_lost", json_incref(pins), err));
    return planning_set(stock->planning, "inventory",
                        json_pack("{s:I, s:I, s:s, s:I}", "repositories", (json_int_t)stock->repositories, "manifests",
                                  (json_int_t)stock->manifests, "digest", text, "newly_placeable", (json_int_t)stock->placeable),
                        err);
}

struct result plan_content(struct planning *planning, struct error *err)
{
    OWNED_JSON rows = json_object();
    OWNED_JSON pins = json_object();
    OWNED(hasher) *hasher = NULL;
    struct stock stock = {.planning = planning, .rows = rows, .pins = pins};
    struct uuid after = {{0}};
    bool has_more = true;

    if (rows == NULL || pins == NULL) return planning_no_memory(err);
    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    stock.hasher = hasher;
    TRY(plan_repository_count(planning->source->pg, &stock.total, err));
    while (has_more) TRY(look_at_page(&stock, &after, &has_more, err));
    return planning->is_stopped ? SUCCESS : describe(&stock, err);
}
