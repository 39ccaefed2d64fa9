#include "storage/region_store.h"

#include <string.h>

#include "base/memory.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement region_list_sql = {
    "region_list", "SELECT region_id, region_tag, driver, location FROM region ORDER BY region_id", "",
    "text bytea text text"};
static const struct pg_statement region_find_sql = {
    "region_find", "SELECT region_id, region_tag, driver, location FROM region WHERE region_id = $1", "text",
    "text bytea text text"};
static const struct pg_statement region_insert_sql = {
    "region_insert",
    "INSERT INTO region (region_id, region_tag, driver, location)"
    " VALUES ($1, substring(sha256(convert_to($1, 'UTF8')) FROM 1 FOR 16), $2, $3)",
    "text text text", ""};
static const struct pg_statement *const statements[] = {
    &region_list_sql, &region_find_sql, &region_insert_sql,
};
/* clang-format on */

const struct pg_table region_store_table = PG_TABLE(statements);

static const char *const drivers[] = {[REGION_DRIVER_FS] = "fs", [REGION_DRIVER_S3] = "s3", [REGION_DRIVER_MEMORY] = "memory"};

const char *region_driver_name(enum region_driver driver)
{
    return drivers[driver];
}

static struct result driver_of(const char *name, enum region_driver *driver_out, struct error *err)
{
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++)
        if (strcmp(drivers[i], name) == 0) {
            *driver_out = (enum region_driver)i;
            return SUCCESS;
        }
    return failure(err, ERROR_CORRUPT, "a region has the unknown driver %s", name);
}

static struct result copy_text(char *destination, size_t size, const char *text, struct error *err)
{
    const size_t length = strlen(text);

    if (length >= size) return failure(err, ERROR_CORRUPT, "a region's %.40s... is too long", text);
    memcpy(destination, text, length + 1);
    return SUCCESS;
}

static struct result region_of(const struct pg_rows *rows, size_t row, struct region *region_out, struct error *err)
{
    const struct bytes tag = pg_bytes(rows, row, 1);
    struct region region = {0};

    TRY(copy_text(region.id, sizeof region.id, pg_text(rows, row, 0), err));
    if (tag.length != sizeof region.tag) return failure(err, ERROR_CORRUPT, "region %s has no tag", region.id);
    memcpy(region.tag, tag.data, sizeof region.tag);
    TRY(driver_of(pg_text(rows, row, 2), &region.driver, err));
    TRY(copy_text(region.location, sizeof region.location, pg_text(rows, row, 3), err));
    *region_out = region;
    return SUCCESS;
}

struct result region_list(struct pg *pg, struct region **regions_out, size_t *count_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &region_list_sql, NULL, &rows, err));
    const size_t count = pg_rows_count(rows);
    OWNED_STRING block = memory_zeroed(count + 1, sizeof(struct region));
    if (block == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu regions", count);

    struct region *regions = (void *)block;
    for (size_t i = 0; i < count; i++) TRY(region_of(rows, i, &regions[i], err));
    block = NULL;
    *regions_out = regions;
    *count_out = count;
    return SUCCESS;
}

struct result region_find(struct pg *pg, const char *id, struct region *region_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, id);
    TRY(pg_run(pg, &region_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no region %.63s", id);
    return region_of(rows, 0, region_out, err);
}

struct result region_insert(struct pg *pg, const struct region *region, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, region->id);
    pg_add_text(&arguments, drivers[region->driver]);
    pg_add_text(&arguments, region->location);
    return pg_run(pg, &region_insert_sql, &arguments, NULL, err);
}
