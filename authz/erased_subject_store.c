#include "authz/erased_subject.h"

#include <stdio.h>
#include <string.h>

#include "authz/rights_priv.h"
#include "authz/role.h"
#include "base/text.h"
#include "crypto/secret.h"
#include "storage/pg_table.h"

/* clang-format off */
#define IS_LIVE "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())"
#define IS_BEHIND "(person = $3 OR $3 IN (SELECT split_part(x, ' ', 1) FROM unnest(behind) AS x))"
#define REST \
    " (SELECT count(*) FROM robot WHERE " IS_BEHIND " AND " IS_LIVE "), (SELECT count(*) FROM robot WHERE " IS_BEHIND ")," \
    " (SELECT count(*) FROM upload WHERE issuer = $1 AND subject = $2), (SELECT count(*) FROM document WHERE recorded_by = $3)," \
    " (SELECT count(*) FROM binding WHERE granted_by = $3 OR giver = $3)," \
    " (SELECT count(DISTINCT run_id) FROM run_envelope WHERE kind IN ('request', 'approval') AND principal = $3)," \
    " (SELECT count(*) FROM run_envelope WHERE kind = 'request' AND principal = $3 AND convert_from(decode(envelope::json->>'payload'," \
    " 'base64'), 'UTF8')::json#>>'{claims,subject}' = $2)"
static const struct pg_statement holdings_of_subject_sql = {
    "holdings_of_subject",
    "SELECT (SELECT count(*) FROM binding WHERE issuer = $1 AND subject = $2 AND " IS_LIVE ") +"
    " (SELECT count(*) FROM group_login WHERE issuer = $1 AND subject = $2 AND until > now() AND cardinality(groups) > 0) +"
    " (SELECT count(*) FROM break_glass_holder WHERE issuer = $1 AND subject = $2 AND until > now()) +"
    " (SELECT count(*) FROM scim_subject JOIN scim_user u USING (person) WHERE scim_subject.issuer = $1 AND subject = $2 AND u.active) +"
    " (SELECT count(*) FROM scim_user WHERE issuer = $1 AND external_id = $2 AND active),"
    " (SELECT count(*) FROM binding WHERE issuer = $1 AND subject = $2 AND NOT (" IS_LIVE "))," REST,
    "text text text", "int8 int8 int8 int8 int8 int8 int8 int8 int8"};
static const struct pg_statement holdings_of_robot_sql = {
    "holdings_of_robot",
    "SELECT (SELECT count(*) FROM robot WHERE name = $2 AND " IS_LIVE "), (SELECT count(*) FROM robot WHERE name = $2 AND NOT (" IS_LIVE "))," REST,
    "text text text", "int8 int8 int8 int8 int8 int8 int8 int8 int8"};
static const struct pg_statement robot_owners_sql = {
    "robot_owners",
    "SELECT split_part(p, ' ', 1), max(split_part(p, ' ', 2)) FROM robot, unnest(ARRAY[person, created_by] || behind) AS p"
    " WHERE name = $1 AND (p LIKE 'ext:%' OR p = 'administrator') GROUP BY 1 LIMIT $2",
    "text int8", "text text"};
static const struct pg_statement subject_groups_delete_sql = {
    "subject_groups_delete", "DELETE FROM group_login WHERE issuer = $1 AND subject = $2", "text text", ""};
/* The person that SCIM has provisioned, by a subject of its tokens or by its externalId: the names are sealed under the key that goes now. */
static const struct pg_statement subject_scim_delete_sql = {
    "subject_scim_delete",
    "DELETE FROM scim_user u WHERE u.issuer = $1 AND (u.external_id = $2 OR EXISTS (SELECT FROM scim_subject s WHERE s.person = u.person AND s.issuer = $1"
    " AND s.subject = $2))", "text text", ""};
static const struct pg_statement subject_glasses_delete_sql = {
    "subject_glasses_delete", "DELETE FROM break_glass_holder WHERE issuer = $1 AND subject = $2", "text text", ""};
static const struct pg_statement subject_elevations_delete_sql = {
    "subject_elevations_delete", "DELETE FROM elevation WHERE issuer = $1 AND subject = $2", "text text", ""};
static const struct pg_statement *const statements[] = {&subject_elevations_delete_sql, &subject_glasses_delete_sql, &subject_scim_delete_sql, &subject_groups_delete_sql, &holdings_of_subject_sql, &holdings_of_robot_sql, &robot_owners_sql};
/* clang-format on */
const struct pg_table erased_subject_table = PG_TABLE(statements);

static bool is_robot(const struct erasure_person *person)
{
    return person->issuer[0] == '\0';
}

/* "" for a robot: rows name robots by their ids. */
static void key_of(const struct erasure_person *person, char key_out[PRINCIPAL_KEY_SIZE])
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL};

    key_out[0] = '\0';
    if (is_robot(person)) return;
    (void)text_copy(principal.issuer, sizeof principal.issuer, person->issuer);
    (void)text_copy(principal.subject, sizeof principal.subject, person->subject);
    principal_key(&principal, key_out);
    secret_wipe(&principal, sizeof principal);
}

static struct result select_holdings(struct pg *pg, const struct erasure_person *person, struct subject_holdings *holdings_out,
                                     struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    char key[PRINCIPAL_KEY_SIZE];

    key_of(person, key);
    pg_add_text(&arguments, person->issuer);
    pg_add_text(&arguments, person->subject);
    pg_add_text(&arguments, key);
    TRY(pg_run(pg, is_robot(person) ? &holdings_of_robot_sql : &holdings_of_subject_sql, &arguments, &rows, err));
    *holdings_out = (struct subject_holdings){.roles_live = pg_int8(rows, 0, 0),
                                              .roles_ended = pg_int8(rows, 0, 1),
                                              .robots_live = pg_int8(rows, 0, 2),
                                              .robots = pg_int8(rows, 0, 3),
                                              .uploads = pg_int8(rows, 0, 4),
                                              .documents = pg_int8(rows, 0, 5),
                                              .given = pg_int8(rows, 0, 6),
                                              .runs = pg_int8(rows, 0, 7),
                                              .runs_named = pg_int8(rows, 0, 8)};
    return SUCCESS;
}

struct result subject_holdings_find(const struct permit *permit, enum action action, struct pg *pg,
                                    const struct erasure_person *person, struct subject_holdings *holdings_out, struct error *err)
{
    (void)permit_resource(permit, action);
    return select_holdings(pg, person, holdings_out, err);
}

struct result subject_owners_find(const struct permit *permit, enum action action, struct pg *pg,
                                  const struct erasure_person *person, struct subject_owners *owners_out, struct error *err)
{
    struct subject_owners owners = {.count = 0};
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    char key[PRINCIPAL_KEY_SIZE];

    (void)permit_resource(permit, action);
    if (!is_robot(person)) {
        owners.count = 1;
        key_of(person, key);
        owners.persons[0] = person_new(key, person->issuer);
        *owners_out = owners;
        return SUCCESS;
    }
    pg_add_text(&arguments, person->subject);
    pg_add_int8(&arguments, SUBJECT_OWNERS_MAX + 1);
    TRY(pg_run(pg, &robot_owners_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) > SUBJECT_OWNERS_MAX)
        return failure(err, ERROR_LIMIT, "more than %d persons have had a robot of this name", SUBJECT_OWNERS_MAX);
    for (; owners.count < pg_rows_count(rows); owners.count++)
        owners.persons[owners.count] = person_new(pg_text(rows, owners.count, 0), pg_text(rows, owners.count, 1));
    *owners_out = owners;
    return SUCCESS;
}

struct result subject_holdings_check(const struct subject_holdings *holdings, struct error *err)
{
    if (holdings->roles_live == 0 && holdings->uploads == 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the person has a role or an open upload again: end these first");
}

static struct result check_gone(struct pg *pg, const struct erasure_person *person, struct error *err)
{
    struct subject_holdings holdings;

    TRY(select_holdings(pg, person, &holdings, err));
    return subject_holdings_check(&holdings, err);
}

/* None of them has a role any more: check_gone(). */
static struct result delete_groups(struct pg *pg, const struct erasure_person *person, struct error *err)
{
    struct pg_arguments arguments = {0};

    if (is_robot(person)) return SUCCESS;
    pg_add_text(&arguments, person->issuer);
    pg_add_text(&arguments, person->subject);
    TRY(pg_run(pg, &subject_groups_delete_sql, &arguments, NULL, err));
    TRY(pg_run(pg, &subject_glasses_delete_sql, &arguments, NULL, err));
    TRY(pg_run(pg, &subject_elevations_delete_sql, &arguments, NULL, err));
    return pg_run(pg, &subject_scim_delete_sql, &arguments, NULL, err);
}

static struct result run(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct subject_erase *erase = (const struct subject_erase *)change; /* its first member */
    static const struct uuid registry = {{0}};

    TRY(check_gone(pg, erase->person, err));
    TRY(erasure_begin(permit, pg, &erase->begin, err));
    TRY(erasure_rename(permit, pg, erase->person, err));
    TRY(delete_groups(pg, erase->person, err));
    return rights_raise_epoch(pg, &registry, err);
}

void subject_erase_init(struct subject_erase *erase, const struct erasure_begin *begin, const struct erasure_person *person)
{
    *erase =
        (struct subject_erase){.change = {.run = run, .raises_epoch = true, .is_alone = true}, .begin = *begin, .person = person};
}
