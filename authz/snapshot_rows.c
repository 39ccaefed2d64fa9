/* Rows of robots, bindings and issuers, as a snapshot has them. */
#include "authz/snapshot_rows_priv.h"

#include <string.h>

#include "authz/snapshot_priv.h"
#include "base/text.h"

struct uuid snapshot_uuid_or_nil(const struct pg_rows *rows, size_t row, size_t column)
{
    return pg_is_null(rows, row, column) ? ((struct uuid){{0}}) : pg_uuid(rows, row, column);
}

static struct result read_previous(const struct pg_rows *rows, size_t row, struct authz_robot *robot, struct error *err)
{
    const struct bytes hash = pg_bytes(rows, row, 5);

    if (!pg_is_null(rows, row, 6)) robot->previous_until_ms = pg_time_ms(rows, row, 6);
    if (!pg_is_null(rows, row, 8)) robot->asked_since_ms = pg_time_ms(rows, row, 8);
    if (pg_is_null(rows, row, 5)) return SUCCESS;
    if (hash.length != sizeof robot->previous_hash)
        return failure(err, ERROR_CORRUPT, "the robot %.140s has no hash of its previous secret", robot->name);
    memcpy(robot->previous_hash, hash.data, hash.length);
    return SUCCESS;
}

struct result snapshot_read_robot(const struct pg_rows *rows, size_t row, struct authz_robot *robot, struct error *err)
{
    const struct bytes hash = pg_bytes(rows, row, 3);

    if (hash.length != sizeof robot->secret_hash)
        return failure(err, ERROR_CORRUPT, "the robot %.140s has no hash of a secret", pg_text(rows, row, 2));
    robot->id = pg_uuid(rows, row, 0);
    robot->organisation = snapshot_uuid_or_nil(rows, row, 1);
    (void)text_copy(robot->name, sizeof robot->name, pg_text(rows, row, 2));
    memcpy(robot->secret_hash, hash.data, hash.length);
    robot->enabled = true;
    robot->expires_ms = pg_time_ms(rows, row, 4);
    persons_add_lines(&robot->persons, pg_text(rows, row, 7));
    return read_previous(rows, row, robot, err);
}

/* The CHECKs of the columns limit the length of all texts. */
struct result snapshot_read_binding(const struct pg_rows *rows, size_t row, struct authz_binding *binding, struct error *err)
{
    if (!binding_read_role(binding, pg_text(rows, row, 4)))
        return failure(err, ERROR_CORRUPT, "a binding has the unknown role %.40s", pg_text(rows, row, 4));
    binding->id = pg_uuid(rows, row, 0);
    binding->kind = pg_is_null(rows, row, 1) ? PRINCIPAL_EXTERNAL : PRINCIPAL_ROBOT;
    binding->robot = snapshot_uuid_or_nil(rows, row, 1);
    (void)text_copy(binding->issuer, sizeof binding->issuer, pg_text(rows, row, 2));
    (void)text_copy(binding->subject, sizeof binding->subject, pg_text(rows, row, 3));
    binding->organisation = snapshot_uuid_or_nil(rows, row, 5);
    binding->project = snapshot_uuid_or_nil(rows, row, 6);
    (void)text_copy(binding->pattern, sizeof binding->pattern, pg_text(rows, row, 7));
    (void)text_copy(binding->granted_by, sizeof binding->granted_by, pg_text(rows, row, 8));
    binding->expires_ms = pg_is_null(rows, row, 9) ? 0 : pg_time_ms(rows, row, 9);
    binding->granting_person = person_new(pg_text(rows, row, 10), pg_text(rows, row, 11));
    binding->is_brief = pg_bool(rows, row, 12);
    binding->scope = binding_scope(binding);
    return SUCCESS;
}

void snapshot_read_issuer(const struct pg_rows *rows, size_t row, struct issuer_record *record)
{
    record->id = pg_uuid(rows, row, 0);
    (void)text_copy(record->url, sizeof record->url, pg_text(rows, row, 1));
    (void)text_copy(record->audience, sizeof record->audience, pg_text(rows, row, 2));
    record->algorithms = jose_algorithms_of(pg_text(rows, row, 3));
    record->types = ISSUER_TYPES;
    record->lifetime_max_s = (unsigned)pg_int8(rows, row, 4);
    record->jwks = pg_text(rows, row, 5);
    record->follows = pg_bool(rows, row, 6);
    record->confirmed_ms = pg_is_null(rows, row, 7) ? 0 : pg_time_ms(rows, row, 7);
}
