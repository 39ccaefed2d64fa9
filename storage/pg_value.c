#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "storage/pg_priv.h"

#define ENCODED_MAX \
    (64U << 20) /* bytes of all arguments of one statement: far more than a group of events \
                 */

/* PostgreSQL counts microseconds from 2000-01-01. */
#define EPOCH_2000_MS INT64_C(946684800000)

static struct pg_argument *add(struct pg_arguments *arguments, char type)
{
    assert(arguments->count < PG_PARAMETERS_MAX);
    struct pg_argument *argument = &arguments->values[arguments->count++];
    *argument = (struct pg_argument){.type = type};
    return argument;
}

void pg_add_int8(struct pg_arguments *arguments, int64_t value)
{
    add(arguments, '8')->integer = value;
}

void pg_add_int4(struct pg_arguments *arguments, int32_t value)
{
    add(arguments, '4')->integer = value;
}

void pg_add_bool(struct pg_arguments *arguments, bool value)
{
    add(arguments, '?')->integer = value;
}

void pg_add_time(struct pg_arguments *arguments, int64_t wall_ms)
{
    add(arguments, '@')->integer = wall_ms;
}

void pg_add_null(struct pg_arguments *arguments)
{
    add(arguments, '0')->is_null = true;
}

void pg_add_text(struct pg_arguments *arguments, const char *value)
{
    struct pg_argument *argument = add(arguments, 't');

    argument->is_null = value == NULL;
    if (value != NULL) argument->bytes = bytes_of_text(value);
}

void pg_add_bytes(struct pg_arguments *arguments, struct bytes value)
{
    add(arguments, 'b')->bytes = value;
}

void pg_add_uuid(struct pg_arguments *arguments, const struct uuid *value)
{
    struct pg_argument *argument = add(arguments, 'u');

    argument->is_null = value == NULL;
    if (value != NULL) argument->bytes = uuid_bytes(value);
}

static void add_array(struct pg_arguments *arguments, char type, const struct bytes *values, size_t count)
{
    struct pg_argument *argument = add(arguments, type);

    argument->array = values;
    argument->array_count = count;
}

void pg_add_text_array(struct pg_arguments *arguments, const struct bytes *values, size_t count)
{
    add_array(arguments, 'T', values, count);
}

void pg_add_bytes_array(struct pg_arguments *arguments, const struct bytes *values, size_t count)
{
    add_array(arguments, 'B', values, count);
}

void pg_add_uuid_array(struct pg_arguments *arguments, const struct bytes *values, size_t count)
{
    add_array(arguments, 'U', values, count);
}

void pg_add_int8_array(struct pg_arguments *arguments, const int64_t *values, size_t count)
{
    add_array(arguments, 'I', NULL, count);
    arguments->values[arguments->count - 1].integers = values;
}

/* The kinds of argument that a parameter takes. */
static const char *kinds_of(Oid type)
{
    switch (type) {
    case PG_INT8: return "80";
    case PG_INT4: return "40";
    case PG_BOOL: return "?0";
    case PG_TIMESTAMPTZ: return "@0";
    case PG_TEXT: return "tb0";
    case PG_BYTEA: return "b0";
    case PG_UUID: return "u0";
    case PG_TEXT_ARRAY: return "T0";
    case PG_BYTEA_ARRAY: return "B0";
    case PG_UUID_ARRAY: return "U0";
    case PG_INT8_ARRAY: return "I0";
    default: return "";
    }
}

static Oid element_of(char kind)
{
    switch (kind) {
    case 'T': return PG_TEXT;
    case 'B': return PG_BYTEA;
    case 'U': return PG_UUID;
    default: return PG_INT8;
    }
}

static struct result encode_element(struct buffer *text, const struct pg_argument *argument, size_t i, struct error *err)
{
    if (argument->type != 'I') {
        assert(argument->type != 'U' || argument->array[i].length == sizeof(struct uuid));
        return buffer_add_prefixed(text, argument->array[i], err);
    }
    TRY(buffer_add_u32(text, sizeof(int64_t), err));
    return buffer_add_u64(text, (uint64_t)argument->integers[i], err);
}

/* Dimensions, "has NULLs", type; then for the one dimension its size and lower bound; then the elements. */
static struct result encode_array(struct buffer *text, const struct pg_argument *argument, struct error *err)
{
    const size_t count = argument->array_count;

    TRY(buffer_add_u32(text, count > 0, err));
    TRY(buffer_add_u32(text, 0, err));
    TRY(buffer_add_u32(text, element_of(argument->type), err));
    if (count == 0) return SUCCESS;
    TRY(buffer_add_u32(text, (uint32_t)count, err));
    TRY(buffer_add_u32(text, 1, err));
    for (size_t i = 0; i < count; i++) TRY(encode_element(text, argument, i, err));
    return SUCCESS;
}

static struct result encode_one(struct buffer *text, const struct pg_argument *argument, struct error *err)
{
    switch (argument->type) {
    case '8': return buffer_add_u64(text, (uint64_t)argument->integer, err);
    case '4': return buffer_add_u32(text, (uint32_t)argument->integer, err);
    case '?': return buffer_add_u8(text, argument->integer != 0, err);
    case '@': return buffer_add_u64(text, (uint64_t)((argument->integer - EPOCH_2000_MS) * 1000), err);
    case 't':
    case 'b':
    case 'u': return buffer_add(text, argument->bytes.data, argument->bytes.length, err);
    default: return encode_array(text, argument, err);
    }
}

static struct result encode_all(const struct pg_arguments *arguments, struct pg_encoded *encoded, struct error *err)
{
    for (size_t i = 0; i < arguments->count; i++) {
        const size_t start = encoded->text.length;
        encoded->formats[i] = 1;
        if (!arguments->values[i].is_null) TRY(encode_one(&encoded->text, &arguments->values[i], err));
        encoded->lengths[i] = (int)(encoded->text.length - start);
    }
    TRY(buffer_add_u8(&encoded->text, 0, err)); /* so that the pointers below are never NULL */

    const char *next = buffer_text(&encoded->text);
    for (size_t i = 0; i < arguments->count; i++) {
        encoded->values[i] = arguments->values[i].is_null ? NULL : next;
        next += encoded->lengths[i];
    }
    return SUCCESS;
}

struct result pg_encode(const struct pg_prepared *prepared, const struct pg_arguments *arguments, struct pg_encoded *encoded_out,
                        struct error *err)
{
    struct pg_encoded encoded = {.text = BUFFER(ENCODED_MAX)};

    assert(arguments->count == prepared->count);
    for (size_t i = 0; i < arguments->count; i++) assert(strchr(kinds_of(prepared->types[i]), arguments->values[i].type) != NULL);

    const struct result done = encode_all(arguments, &encoded, err);
    if (!done.ok) {
        pg_encoded_done(&encoded);
        return done;
    }
    *encoded_out = encoded;
    return SUCCESS;
}

void pg_encoded_done(struct pg_encoded *encoded)
{
    buffer_done(&encoded->text);
}

size_t pg_rows_count(const struct pg_rows *rows)
{
    return (size_t)PQntuples(rows->result);
}

int64_t pg_rows_affected(const struct pg_rows *rows)
{
    uint64_t count = 0;

    /* PQcmdTuples() does not change the result; libpq only lacks the const. */
    (void)text_to_u64(bytes_of_text(PQcmdTuples(rows->result)), INT64_MAX, &count);
    return (int64_t)count;
}

bool pg_is_null(const struct pg_rows *rows, size_t row, size_t column)
{
    assert(row < pg_rows_count(rows) && column < (size_t)PQnfields(rows->result));
    return PQgetisnull(rows->result, (int)row, (int)column) == 1;
}

/* The bytes of a value, whose type must be `type`; empty for NULL. */
static struct bytes value_of(const struct pg_rows *rows, size_t row, size_t column, Oid type)
{
    if (pg_is_null(rows, row, column)) return (struct bytes){0};
    assert(PQftype(rows->result, (int)column) == type);
    return (struct bytes){.data = (const uint8_t *)PQgetvalue(rows->result, (int)row, (int)column),
                          .length = (size_t)PQgetlength(rows->result, (int)row, (int)column)};
}

int64_t pg_int8(const struct pg_rows *rows, size_t row, size_t column)
{
    const bool is_short = PQftype(rows->result, (int)column) == PG_INT4;
    const struct bytes value = value_of(rows, row, column, is_short ? PG_INT4 : PG_INT8);

    if (value.length == 0) return 0;
    return is_short ? (int32_t)load_u32(value.data) : (int64_t)load_u64(value.data);
}

bool pg_bool(const struct pg_rows *rows, size_t row, size_t column)
{
    const struct bytes value = value_of(rows, row, column, PG_BOOL);
    return value.length == 1 && value.data[0] != 0;
}

const char *pg_text(const struct pg_rows *rows, size_t row, size_t column)
{
    const struct bytes value = value_of(rows, row, column, PG_TEXT);
    return value.data == NULL ? "" : (const char *)value.data; /* libpq ends every value with '\0' */
}

struct bytes pg_bytes(const struct pg_rows *rows, size_t row, size_t column)
{
    const bool is_text = PQftype(rows->result, (int)column) == PG_TEXT;
    return value_of(rows, row, column, is_text ? PG_TEXT : PG_BYTEA);
}

struct uuid pg_uuid(const struct pg_rows *rows, size_t row, size_t column)
{
    const struct bytes value = value_of(rows, row, column, PG_UUID);
    struct uuid uuid = {0};

    if (value.length == sizeof uuid.bytes) memcpy(uuid.bytes, value.data, sizeof uuid.bytes);
    return uuid;
}

int64_t pg_time_ms(const struct pg_rows *rows, size_t row, size_t column)
{
    const struct bytes value = value_of(rows, row, column, PG_TIMESTAMPTZ);

    if (value.length == 0) return 0;
    const int64_t micros = (int64_t)load_u64(value.data);
    const int64_t whole = micros / 1000 - (micros % 1000 < 0); /* rounded towards the past */
    return whole + EPOCH_2000_MS;
}

struct result pg_rows_new(struct pg_rows **rows_out, struct error *err)
{
    struct pg_rows *rows = memory_zeroed(1, sizeof *rows);

    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for results of PostgreSQL");
    *rows_out = rows;
    return SUCCESS;
}

void pg_rows_free(struct pg_rows *rows)
{
    if (rows == NULL) return;
    PQclear(rows->result);
    free(rows);
}
