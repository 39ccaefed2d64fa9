/* Policy sets that were in force before: the networks of the log's events are theirs. */
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "crypto/dsse.h"
#include "planning/plan_priv.h"

#define SETS_MAX    32 /* at once; a set is loaded a few times a month */
#define DIGEST_TEXT 72 /* "sha256:", 64 digits and '\0' */

struct plan_sets {
    const struct planning *planning;
    size_t next; /* its place is used next */
    struct {
        char digest[DIGEST_TEXT];
        struct policy_set *set; /* NULL: it is not stored */
    } each[SETS_MAX];
};

struct result plan_sets_new(const struct planning *planning, struct plan_sets **sets_out, struct error *err)
{
    struct plan_sets *sets = memory_zeroed(1, sizeof *sets);

    if (sets == NULL) return planning_no_memory(err);
    sets->planning = planning;
    *sets_out = sets;
    return SUCCESS;
}

void plan_sets_free(struct plan_sets *sets)
{
    if (sets == NULL) return;
    for (size_t i = 0; i < SETS_MAX; i++) policy_set_free(sets->each[i].set);
    free(sets);
}

/* NULL: it is no set of this digest. */
static struct result compile(struct bytes envelope, const char *digest, struct policy_set **set_out, struct error *err)
{
    OWNED(dsse) *dsse = NULL;
    OWNED(policy_set) *set = NULL;
    struct error why = {0};

    struct result read = dsse_read(envelope, POLICY_SET_ENVELOPE_MAX, &dsse, &why);
    if (read.ok) read = policy_set_compile(buffer_bytes(&dsse->payload), &set, &why);
    if (!read.ok && why.kind == ERROR_NO_MEMORY) return planning_no_memory(err);
    *set_out = read.ok && strcmp(policy_set_digest(set), digest) == 0 ? GIVE(set) : NULL;
    return SUCCESS;
}

static struct result read_set(struct plan_sets *sets, const char *digest, struct policy_set **set_out, struct error *err)
{
    static const char prefix[] = "sha256:";
    uint8_t raw[SHA256_SIZE];
    OWNED(pg_rows) *rows = NULL;

    *set_out = NULL;
    if (strncmp(digest, prefix, sizeof prefix - 1) != 0 ||
        !text_from_hex(bytes_of_text(digest + sizeof prefix - 1), raw, sizeof raw))
        return SUCCESS;
    TRY(plan_set_envelope(sets->planning->source->pg, raw, &rows, err));
    return pg_rows_count(rows) == 0 ? SUCCESS : compile(pg_bytes(rows, 0, 0), digest, set_out, err);
}

struct result plan_sets_find(struct plan_sets *sets, const char *digest, const struct policy_set **set_out, struct error *err)
{
    const struct policy_set *base = policy_plan_base(sets->planning->plan);
    struct policy_set *set = NULL;

    *set_out = base != NULL && strcmp(policy_set_digest(base), digest) == 0 ? base : NULL;
    if (*set_out != NULL || digest[0] == '\0') return SUCCESS;
    for (size_t i = 0; i < SETS_MAX; i++)
        if (strcmp(sets->each[i].digest, digest) == 0) {
            *set_out = sets->each[i].set;
            return SUCCESS;
        }
    TRY(read_set(sets, digest, &set, err));
    policy_set_free(sets->each[sets->next].set);
    sets->each[sets->next].set = set;
    (void)text_copy(sets->each[sets->next].digest, DIGEST_TEXT, digest);
    sets->next = (sets->next + 1) % SETS_MAX;
    *set_out = set;
    return SUCCESS;
}
