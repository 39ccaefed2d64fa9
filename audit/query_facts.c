/* The facts of the decisions that the events of a page record. */
#include <string.h>

#include "audit/query.h"
#include "audit/query_priv.h"
#include "base/json.h"
#include "base/memory.h"
#include "crypto/digest.h"

#define FACTS_TEXT_MAX ((size_t)32 * 1024) /* migrations/0037_decision_facts.sql */

struct page_facts {
    struct pg_rows *rows; /* digest and text, in the order of digests */
    bool *are_sound;
};

void page_facts_free(struct page_facts *facts)
{
    if (facts == NULL) return;
    pg_rows_free(facts->rows);
    free(facts->are_sound);
    free(facts);
}

/* A faulty gateway can commit to any bytes; only JSON is shown as JSON. */
static struct result check_text(struct bytes digest, struct bytes text, bool *is_sound_out, struct error *err)
{
    uint8_t computed[SHA256_SIZE];
    OWNED_JSON json = NULL;
    struct error why;

    sha256_of(text, computed);
    *is_sound_out = bytes_equal(digest, (struct bytes){computed, sizeof computed});
    if (!*is_sound_out) return SUCCESS;
    *is_sound_out = json_read(text, FACTS_TEXT_MAX, &json, &why).ok;
    return !*is_sound_out && why.kind == ERROR_NO_MEMORY ? failure(err, why.kind, "%s", why.message) : SUCCESS;
}

static struct result check_rows(struct page_facts *facts, struct error *err)
{
    const size_t count = pg_rows_count(facts->rows);

    facts->are_sound = memory_zeroed(count + 1, sizeof *facts->are_sound);
    if (facts->are_sound == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for facts");
    for (size_t i = 0; i < count; i++)
        TRY(check_text(pg_bytes(facts->rows, i, 0), pg_bytes(facts->rows, i, 1), &facts->are_sound[i], err));
    return SUCCESS;
}

static struct result read_facts(struct pg *pg, const struct bytes *digests, size_t count, struct page_facts **facts_out,
                                struct error *err)
{
    OWNED(page_facts) *facts = memory_zeroed(1, sizeof *facts);

    if (facts == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for facts");
    TRY(audit_select_facts(pg, digests, count, &facts->rows, err));
    TRY(check_rows(facts, err));
    *facts_out = GIVE(facts);
    return SUCCESS;
}

struct result audit_page_load_facts(struct audit_page *page, struct pg *pg, struct error *err)
{
    struct bytes *digests = memory_zeroed(audit_page_count(page) * LEAF_TARGETS_MAX + 1, sizeof *digests);
    struct page_facts *facts = NULL;
    size_t count = 0;

    if (digests == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for facts");
    for (size_t i = 0; i < audit_page_count(page); i++)
        for (size_t k = 0; k < audit_page_facts_count(page, i); k++) digests[count++] = audit_page_facts_digest(page, i, k);
    const struct result read = read_facts(pg, digests, count, &facts, err);
    free(digests);
    TRY(read);
    page_facts_free(audit_page_keep_facts(page, facts));
    return SUCCESS;
}

static int compare(struct bytes a, struct bytes b)
{
    const size_t shorter = a.length < b.length ? a.length : b.length;
    const int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);

    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

/* The row with this digest; the number of rows if there is none. */
static size_t find(const struct pg_rows *rows, struct bytes digest)
{
    size_t low = 0, high = pg_rows_count(rows);

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = compare(pg_bytes(rows, middle, 0), digest);
        if (order == 0) return middle;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return pg_rows_count(rows);
}

enum facts_state audit_page_facts(const struct audit_page *page, size_t index, size_t target, struct bytes *text_out)
{
    const struct page_facts *facts = audit_page_kept_facts(page);
    const size_t row = facts == NULL ? 0 : find(facts->rows, audit_page_facts_digest(page, index, target));

    if (facts == NULL || row == pg_rows_count(facts->rows)) return FACTS_MISSING;
    if (!facts->are_sound[row]) return FACTS_DAMAGED;
    *text_out = pg_bytes(facts->rows, row, 1);
    return FACTS_SOUND;
}
