/* Makes and replaces secrets of robots. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/row_told.h"
#include "authz/person_priv.h"
#include "authz/rights_priv.h"
#include "authz/robot.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/random.h"
#include "storage/pg_table.h"

/* clang-format off */
/* A token that was granted just before may be signed this long after the grant. It is in whole seconds, because iat of a token is. */
#define MARGIN_S "2"

static const struct pg_statement robot_rotate_sql = {
    "robot_rotate",
    "UPDATE robot SET secret_hash = $3, certificate = $8, secret_since = now(), expires_at = now() + $4::int8 * interval '1 second',"
    " previous_hash = CASE WHEN $5::int8 > 0 THEN secret_hash END, previous_until ="
    " date_trunc('second', clock_timestamp() + CASE WHEN $5::int8 > 0 THEN $5::int8 ELSE " MARGIN_S " END * interval '1 second'),"
    " asked_since = CASE WHEN $5::int8 > 0 THEN asked_since"
    " ELSE greatest(asked_since, date_trunc('second', clock_timestamp() + " MARGIN_S " * interval '1 second')) END,"
    " person = CASE WHEN person = " PERSON_BEHIND("$6") " THEN person END, behind = (SELECT array_agg(DISTINCT each) FROM unnest(behind ||"
    " CASE WHEN cardinality(behind) BETWEEN 1 AND 15 THEN " PERSONS_BEHIND("$6", "$7") " ELSE '{unknown}' END) AS each)"
    " WHERE robot_id = $1 AND organisation_id IS NOT DISTINCT FROM $2 AND revoked_at IS NULL"
    " RETURNING name, expires_at, previous_until",
    "uuid uuid bytea int8 int8 text text text", "text timestamptz timestamptz"};
static const struct pg_statement *const statements[] = {
    &robot_rotate_sql,
};
/* clang-format on */
const struct pg_table robot_rotate_table = PG_TABLE(statements);

/* A prefix and 256 random bits, as text, because people copy it. */
struct result robot_secret_new(struct secret **secret_out, uint8_t hash_out[ROBOT_SECRET_HASH], struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(ROBOT_SECRET_SIZE);
    OWNED(secret) *random = NULL;

    TRY(secret_random(32, &random, err));
    struct result result = buffer_reserve(&text, ROBOT_SECRET_SIZE, &(uint8_t *){NULL}, err);
    if (result.ok) result = buffer_add_text(&text, ROBOT_SECRET_PREFIX, err);
    if (result.ok) result = text_base64(&text, BASE64_URL, secret_bytes(random), err);
    if (result.ok) {
        sha256_of(buffer_bytes(&text), hash_out);
        result = buffer_add_u8(&text, '\0', err);
    }
    if (result.ok) result = secret_copy(buffer_bytes(&text), secret_out, err);
    if (text.data != NULL) secret_wipe(text.data, text.capacity);
    return result;
}

/* As told_secret() makes it in the database. */
void robot_told(const uint8_t hash[ROBOT_SECRET_HASH], int64_t lifetime_s, char told_out[ROBOT_TOLD_SIZE])
{
    static const char what[] = "sijil robot secret";
    uint8_t text[sizeof what - 1 + ROBOT_SECRET_HASH], of_hash[SHA256_SIZE];
    char digits[2 * SHA256_SIZE + 1];

    memcpy(text, what, sizeof what - 1);
    memcpy(text + sizeof what - 1, hash, ROBOT_SECRET_HASH);
    sha256_of((struct bytes){text, sizeof text}, of_hash);
    text_hex(of_hash, sizeof of_hash, digits);
    (void)snprintf(told_out, ROBOT_TOLD_SIZE, " " ROBOT_TOLD_SECRET "%.*s " ROW_TOLD_LIFETIME "%lld", ROW_TOLD_DIGITS, digits,
                   (long long)lifetime_s);
}

/* The event has the digest of the secret, and the lifetime, that the row gets. */
static void tell(struct robot_rotate *rotate)
{
    char id[UUID_TEXT_SIZE], told[ROBOT_TOLD_SIZE];

    uuid_format(&rotate->robot, id);
    robot_told(rotate->secret_hash, rotate->lifetime_s, told);
    (void)snprintf(rotate->detail, sizeof rotate->detail, "%s%s", id, told);
    rotate->change.detail = rotate->detail;
}

static struct result run_rotate(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct robot_rotate *rotate = (struct robot_rotate *)(void *)change; /* its first member */
    const struct resource *resource = permit_resource(permit, ACTION_ROBOT_ROTATE);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct uuid decided = {0};

    assert(uuid_parse(bytes_of_text(resource->detail), &decided) && uuid_equal(&decided, &rotate->robot) &&
           uuid_equal(&resource->organisation, &rotate->organisation));
    pg_add_uuid(&arguments, &rotate->robot);
    pg_add_uuid(&arguments, uuid_is_nil(&rotate->organisation) ? NULL : &rotate->organisation);
    pg_add_bytes(&arguments, (struct bytes){rotate->secret_hash, sizeof rotate->secret_hash});
    pg_add_int8(&arguments, rotate->lifetime_s);
    pg_add_int8(&arguments, rotate->grace_s);
    pg_add_text(&arguments, rotate->rotated_by);
    pg_add_text(&arguments, rotate->rotator_issuer);
    pg_add_text(&arguments, rotate->certificate[0] == '\0' ? NULL : rotate->certificate);
    TRY(pg_run(pg, &robot_rotate_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such robot");
    (void)snprintf(rotate->name, sizeof rotate->name, "%s", pg_text(rows, 0, 0));
    rotate->expires_ms = pg_time_ms(rows, 0, 1);
    rotate->previous_until_ms = pg_time_ms(rows, 0, 2);
    return rights_raise_epoch(pg, &rotate->organisation, err);
}

struct result robot_rotate_init(struct robot_rotate *rotate, const struct uuid *robot, const struct uuid *organisation,
                                int64_t lifetime_s, int64_t grace_s, struct error *err)
{
    struct robot_rotate made = {.change = {.run = run_rotate, .raises_epoch = true},
                                .robot = *robot,
                                .organisation = *organisation,
                                .lifetime_s = lifetime_s,
                                .grace_s = grace_s};

    assert(lifetime_s >= 1 && lifetime_s <= ROBOT_SECONDS_MAX && grace_s >= 0 && grace_s <= ROBOT_GRACE_SECONDS_MAX);
    TRY(robot_secret_new(&made.secret, made.secret_hash, err));
    *rotate = made;
    tell(rotate);
    return SUCCESS;
}

struct result robot_rotate_to(struct robot_rotate *rotate, const char *certificate, struct error *err)
{
    if (!robot_certificate_is_possible(certificate))
        return failure(err, ERROR_INVALID, "certificate: x5t#S256: and its SHA-256 in base64url, dns: or uri: and a name in it");
    (void)snprintf(rotate->certificate, sizeof rotate->certificate, "%s", certificate);
    robot_secret_hash(bytes_of_text(certificate), rotate->secret_hash);
    tell(rotate);
    robot_rotate_done(rotate);
    return SUCCESS;
}

void robot_rotate_done(struct robot_rotate *rotate)
{
    secret_free(rotate->secret);
    rotate->secret = NULL;
}
