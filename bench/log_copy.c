#include "bench/log_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define SEND_AT  ((size_t)1 << 20) /* bytes: so that generator and database seldom wait for each other */
#define INT8_OID 20

static void fail(const struct log_copy *copy, const char *what)
{
    (void)fprintf(stderr, "log_bulk: %s: %s\n", what, PQerrorMessage(copy->connection));
    exit(1);
}

PGresult *log_copy_ask(struct log_copy *copy, const char *sql)
{
    PGresult *result = PQexecParams(copy->connection, sql, 0, NULL, NULL, NULL, NULL, 1);
    const ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_COPY_IN) fail(copy, sql);
    return result;
}

static void run(struct log_copy *copy, const char *sql)
{
    PQclear(log_copy_ask(copy, sql));
}

void log_copy_open(struct log_copy *copy, const char *conninfo)
{
    *copy = (struct log_copy){.connection = PQconnectdb(conninfo)};
    if (PQstatus(copy->connection) != CONNECTION_OK) fail(copy, "connecting");
    run(copy, "BEGIN");
}

static void add(struct log_copy *copy, const void *data, size_t length)
{
    if (copy->length + length > copy->room) {
        copy->room = 2 * (copy->length + length);
        uint8_t *rows = memory_resize(copy->rows, copy->room);
        if (rows == NULL) abort();
        copy->rows = rows;
    }
    memcpy(copy->rows + copy->length, data, length);
    copy->length += length;
}

static void add_big_endian(struct log_copy *copy, uint64_t value, size_t size)
{
    uint8_t bytes[8];

    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
    add(copy, bytes, size);
}

static void send(struct log_copy *copy)
{
    if (PQputCopyData(copy->connection, (const char *)copy->rows, (int)copy->length) != 1) fail(copy, "copying");
    copy->length = 0;
}

void log_copy_begin(struct log_copy *copy, const char *table)
{
    char sql[256];

    (void)snprintf(sql, sizeof sql, "COPY %s FROM STDIN (FORMAT binary)", table);
    PGresult *result = PQexec(copy->connection, sql);
    if (PQresultStatus(result) != PGRES_COPY_IN) fail(copy, sql);
    PQclear(result);
    add(copy, "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0", 19);
}

void log_copy_row(struct log_copy *copy, unsigned columns)
{
    if (copy->length >= SEND_AT) send(copy);
    add_big_endian(copy, columns, 2);
}

void log_copy_int4(struct log_copy *copy, int32_t value)
{
    add_big_endian(copy, 4, 4);
    add_big_endian(copy, (uint32_t)value, 4);
}

void log_copy_int8(struct log_copy *copy, int64_t value)
{
    add_big_endian(copy, 8, 4);
    add_big_endian(copy, (uint64_t)value, 8);
}

void log_copy_bytes(struct log_copy *copy, const void *data, size_t length)
{
    add_big_endian(copy, length, 4);
    add(copy, data, length);
}

void log_copy_text(struct log_copy *copy, const char *text)
{
    log_copy_bytes(copy, text, strlen(text));
}

void log_copy_int8_array(struct log_copy *copy, const int64_t *values, size_t count)
{
    add_big_endian(copy, 20 + 12 * count, 4);
    add_big_endian(copy, 1, 4);
    add_big_endian(copy, 0, 4);
    add_big_endian(copy, INT8_OID, 4);
    add_big_endian(copy, count, 4);
    add_big_endian(copy, 1, 4);
    for (size_t i = 0; i < count; i++) log_copy_int8(copy, values[i]);
}

void log_copy_end(struct log_copy *copy)
{
    add_big_endian(copy, 0xffff, 2);
    send(copy);
    if (PQputCopyEnd(copy->connection, NULL) != 1) fail(copy, "ending a copy");
    for (PGresult *result; (result = PQgetResult(copy->connection)) != NULL; PQclear(result))
        if (PQresultStatus(result) != PGRES_COMMAND_OK) fail(copy, "a copy");
}

void log_copy_commit(struct log_copy *copy)
{
    run(copy, "COMMIT");
    PQfinish(copy->connection);
    free(copy->rows);
}
