#include "storage/pg_priv.h"

#include <string.h>

static const struct {
    const char *name;
    Oid type;
} types[] = {
    {"bool", PG_BOOL},
    {"bytea", PG_BYTEA},
    {"int8", PG_INT8},
    {"int4", PG_INT4},
    {"text", PG_TEXT},
    {"uuid", PG_UUID},
    {"timestamptz", PG_TIMESTAMPTZ},
    {"bytea[]", PG_BYTEA_ARRAY},
    {"text[]", PG_TEXT_ARRAY},
    {"int8[]", PG_INT8_ARRAY},
    {"uuid[]", PG_UUID_ARRAY},
};

static Oid type_of(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strlen(types[i].name) == length && memcmp(types[i].name, word, length) == 0) return types[i].type;
    return InvalidOid;
}

const char *pg_type_name(Oid type)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].type == type) return types[i].name;
    return "another type";
}

struct result pg_types_of(const char *words, size_t maximum, Oid *types_out, size_t *count_out, struct error *err)
{
    size_t count = 0;

    for (const char *word = words; *word != '\0';) {
        const size_t length = strcspn(word, " ");
        if (count == maximum) return failure(err, ERROR_INVALID, "more than %zu types: %s", maximum, words);
        types_out[count] = type_of(word, length);
        if (types_out[count] == InvalidOid)
            return failure(err, ERROR_INVALID, "no type is called %.*s: %s", (int)length, word, words);
        count++;
        word += length + (word[length] == ' ');
    }
    *count_out = count;
    return SUCCESS;
}
