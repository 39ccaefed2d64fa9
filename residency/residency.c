#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "residency/residency_priv.h"

const char *residency_table_name(enum residency_table table)
{
    static const char *const names[TABLE_COUNT] = {
#define X(constant, name) [constant] = name,
        RESIDENCY_TABLES(X)
#undef X
    };

    return names[table];
}

struct result residency_no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for a report");
}

static bool make_tables(struct residency *residency)
{
    bool is_whole = true;

    for (enum residency_table table = 0; table < TABLE_COUNT; table++) {
        residency->tables[table] = json_array();
        residency->found[table] = json_object();
        is_whole = is_whole && residency->tables[table] != NULL && residency->found[table] != NULL;
    }
    return is_whole;
}

struct result residency_new(const struct residency_question *question, struct residency **residency_out, struct error *err)
{
    OWNED(residency) *residency = memory_zeroed(1, sizeof *residency);

    if (residency == NULL) return residency_no_memory(err);
    residency->question = *question;
    residency->texts = json_object();
    residency->facts = json_object();
    residency->projects = json_object();
    residency->uses = json_object();
    if (!make_tables(residency) || residency->texts == NULL || residency->facts == NULL || residency->projects == NULL ||
        residency->uses == NULL)
        return residency_no_memory(err);
    *residency_out = GIVE(residency);
    return SUCCESS;
}

void residency_free(struct residency *residency)
{
    if (residency == NULL) return;
    for (enum residency_table table = 0; table < TABLE_COUNT; table++) {
        json_decref(residency->tables[table]);
        json_decref(residency->found[table]);
    }
    for (size_t i = 0; i < residency->findings.sets; i++) {
        policy_set_free(residency->sets[i].set);
        json_decref(residency->sets[i].signatures);
    }
    replay_restrictions_free(residency->restrictions);
    json_decref(residency->texts);
    json_decref(residency->facts);
    json_decref(residency->projects);
    json_decref(residency->uses);
    free(residency);
}

/* ---- rows ---- */

struct result residency_row(struct residency *residency, enum residency_table table, const char *key, json_t **row_out,
                            struct error *err)
{
    json_t *row = json_object_get(residency->found[table], key);

    if (row == NULL) {
        if (residency->rows++ == RESIDENCY_PARTS_MAX * RESIDENCY_ROWS_MAX)
            return failure(err, ERROR_LIMIT,
                           "the report would have more than %d rows: ask for a shorter time, or for an earlier moment",
                           RESIDENCY_PARTS_MAX * RESIDENCY_ROWS_MAX);
        row = json_object();
        if (row == NULL || json_array_append_new(residency->tables[table], row) != 0) return residency_no_memory(err);
        if (json_object_set(residency->found[table], key, row) != 0) return residency_no_memory(err);
    }
    *row_out = row;
    return SUCCESS;
}

struct result residency_put(json_t *row, const char *member, json_t *value, struct error *err)
{
    return json_object_set_new(row, member, value) == 0 ? SUCCESS : residency_no_memory(err);
}

struct result residency_put_text(json_t *row, const char *member, const char *value, struct error *err)
{
    return residency_put(row, member, json_string(value), err);
}

struct result residency_put_time(json_t *row, const char *member, int64_t wall_ms, struct error *err)
{
    char text[CLOCK_TEXT_SIZE];

    clock_format(wall_ms, text);
    return residency_put_text(row, member, text, err);
}

struct result residency_count(json_t *row, const struct leaf *leaf, struct error *err)
{
    const json_int_t before = json_integer_value(json_object_get(row, "count"));

    if (before == 0) {
        TRY(residency_put(row, "first", json_integer((json_int_t)leaf->sequence), err));
        TRY(residency_put_time(row, "first_at", leaf->time_ms, err));
    }
    TRY(residency_put(row, "last", json_integer((json_int_t)leaf->sequence), err));
    TRY(residency_put_time(row, "last_at", leaf->time_ms, err));
    return residency_put(row, "count", json_integer(before + 1), err);
}

bool residency_is_in_period(const struct residency *residency, const struct leaf *leaf)
{
    const uint64_t at = residency->question.unit == EXPORT_BY_TIME ? (uint64_t)leaf->time_ms : leaf->sequence;

    return at >= residency->question.from;
}

/* ---- facts ---- */

struct result residency_take_facts(struct residency *residency, const json_t *facts, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RESIDENCY_LINE_MAX);
    char hex[2 * SHA256_SIZE + 1];
    uint8_t digest[SHA256_SIZE];

    TRY(json_write_canonical(&text, facts, err));
    sha256_of(buffer_bytes(&text), digest);
    text_hex(digest, sizeof digest, hex);
    if (json_object_set_new(residency->texts, hex, json_string(buffer_text(&text))) != 0) return residency_no_memory(err);
    OWNED_JSON copy = json_deep_copy(facts);
    return copy != NULL && json_object_set(residency->facts, hex, copy) == 0 ? SUCCESS : residency_no_memory(err);
}
