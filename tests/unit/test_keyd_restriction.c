/* Restrictions of organisations as sijil-keyd pins them: who has signed is counted there, by documents of officers, and neither a gateway nor the database adds anybody. */
#include "tests/support/unit.h"

#include "documents/format/restriction.h"
#include "tests/unit/keyd_replacement_fixture.h"

#include <fcntl.h>
#include <unistd.h>

#define BODY(effect, scope)                                                                                \
    "{\"policy\":{\"closed\":false,\"metadata\":{\"id\":\"acme.closed\",\"version\":1,\"scope\":[\"" scope \
    "\"],\"organisation\":\"acme\"},\"rules\":[{\"id\":\"A\",\"effect\":\"" effect "\",\"ops\":[\"ingest\"]}]}}"
#define DENIES BODY("deny", "acme/closed/**")

static struct organisation_officers *officers;
static struct organisation_restrictions *restrictions;
static bool gives_points = true;

static void open_officers(void)
{
    struct error err = {0};

    organisation_officers_free(officers);
    organisation_restrictions_free(restrictions);
    officers = NULL;
    restrictions = NULL;
    if (!organisation_officers_open(world.folder.fd, ledger_key, world.ledger, &officers, &err).ok) fail_msg("%s", err.message);
    if (!organisation_restrictions_open(world.folder.fd, ledger_key, world.ledger, &restrictions, &err).ok)
        fail_msg("%s", err.message);
}

/* As a gateway asks: with the points of all keys that may have signed. */
static enum error_kind pin_here(const struct document_pin_request *asked)
{
    const struct document_place where = {.ledger = world.ledger,
                                         .keys = world.keys,
                                         .replacements = replacements,
                                         .officers = officers,
                                         .restrictions = restrictions};
    const struct ecdsa_key *const keys[] = {root, approver, first, second, stranger};
    uint8_t points[COUNT(keys)][ECDSA_PUBLIC_SIZE];
    struct document_pin_request request = *asked;
    struct document_pin pinned;
    struct error err = {0};

    for (size_t i = 0; i < COUNT(keys); i++) ecdsa_key_public(keys[i], points[i]);
    if (gives_points) request.base = (struct bytes){points[0], sizeof points};
    return document_pin(&where, &request, now_ms, &pinned, &err).ok ? ERROR_NONE : err.kind;
}

static enum error_kind appoint_officer(const char *name, const char *principal, const struct ecdsa_key *key, unsigned number)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    const struct ecdsa_key *const signers[3] = {root, NULL, NULL};
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char thumbprint[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    ecdsa_key_public(key == NULL ? first : key, point);
    ecdsa_thumbprint(point, thumbprint);
    const struct officer officer = {principal, thumbprint, RESTRICTION_ROLE, "acme", number};
    OWNED_JSON body = key == NULL ? json_object() : officer_body(&officer);
    const struct document_parts parts = {.kind = DOCUMENT_OFFICERS,
                                         .scope = "",
                                         .name = name,
                                         .body = body,
                                         .version = size + 1,
                                         .withdrawn = key == NULL ? "the end" : NULL,
                                         .effective_ms = now_ms,
                                         .expires_ms = NOW_MS + ENDS};
    if (!document_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    return record(DOCUMENT_OFFICERS, buffer_bytes(&payload), signers, key == NULL ? "officers.revoke" : "officers.approve",
                  pin_here);
}

struct restriction_row {
    const char *scope, *body, *withdrawn; /* body NULL: DENIES */
    uint64_t version;
    const struct ecdsa_key *signers[2];
};

static enum error_kind restrict_it(const struct restriction_row *row)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    const struct ecdsa_key *const signers[3] = {row->signers[0], row->signers[1], NULL};
    OWNED_JSON body = row->withdrawn != NULL ? json_object() : json_loads(row->body == NULL ? DENIES : row->body, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_RESTRICTION,
                                         .scope = row->scope,
                                         .name = "acme.closed",
                                         .body = body,
                                         .version = row->version,
                                         .withdrawn = row->withdrawn,
                                         .effective_ms = now_ms};
    struct error err = {0};

    if (!document_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    return record(DOCUMENT_RESTRICTION, buffer_bytes(&payload), signers,
                  row->withdrawn == NULL ? "restriction.approve" : "restriction.revoke", pin_here);
}

static enum error_kind sign_by(uint64_t version, const struct ecdsa_key *one, const struct ecdsa_key *other)
{
    return restrict_it(&(struct restriction_row){.scope = "acme", .version = version, .signers = {one, other}});
}

static enum error_kind end_by(uint64_t version, const struct ecdsa_key *one, const struct ecdsa_key *other)
{
    return restrict_it(
        &(struct restriction_row){.scope = "acme", .withdrawn = "over", .version = version, .signers = {one, other}});
}

/* Alice and Bob have keys; nobody is an officer of acme yet. */
static int begin_here(void **state)
{
    const int made = set_up(state);
    const struct wanted bob = enrolment(second, BOB);

    gives_points = true;
    open_officers();
    assert_int_equal(enrol(&bob), ERROR_NONE);
    return made;
}

static int end_here(void **state)
{
    organisation_officers_free(officers);
    organisation_restrictions_free(restrictions);
    officers = NULL;
    restrictions = NULL;
    (void)unlinkat(world.folder.fd, ORGANISATION_OFFICERS_FILE, 0);
    (void)unlinkat(world.folder.fd, ORGANISATION_RESTRICTIONS_FILE, 0);
    return tear_down(state);
}

static void officers_of_the_organisation_sign(void **state)
{
    (void)state;
    assert_int_equal(sign_by(1, first, NULL), ERROR_DENIED); /* an administrator of the registry is no officer of acme */
    assert_int_equal(appoint_officer("security-officer.a", ALICE, first, 0), ERROR_NONE);
    assert_int_equal(sign_by(1, root, NULL), ERROR_DENIED);
    assert_int_equal(sign_by(1, approver, NULL), ERROR_DENIED);
    assert_int_equal(sign_by(1, second, stranger), ERROR_DENIED);
    const struct restriction_row permits = {
        .scope = "acme", .body = BODY("permit", "acme/closed/**"), .version = 1, .signers = {first}};
    const struct restriction_row wide = {.scope = "acme", .body = BODY("deny", "**"), .version = 1, .signers = {first}};
    const struct restriction_row elsewhere = {.scope = "beta", .version = 1, .signers = {first}};
    assert_int_equal(restrict_it(&permits), ERROR_INVALID);
    assert_int_equal(restrict_it(&wide), ERROR_INVALID);
    assert_int_equal(restrict_it(&elsewhere), ERROR_INVALID);
    gives_points = false;
    assert_int_equal(sign_by(1, first, NULL), ERROR_DENIED);
    gives_points = true;
    assert_int_equal(sign_by(1, first, NULL), ERROR_NONE);
}

static void a_later_version_and_the_end_take_one_more(void **state)
{
    (void)state;
    assert_int_equal(appoint_officer("security-officer.a", ALICE, first, 0), ERROR_NONE);
    assert_int_equal(appoint_officer("security-officer.b", BOB, second, 0), ERROR_NONE);
    assert_int_equal(sign_by(1, first, NULL), ERROR_NONE);
    assert_int_equal(sign_by(2, first, NULL), ERROR_DENIED);
    assert_int_equal(end_by(2, first, NULL), ERROR_DENIED);
    assert_int_equal(end_by(2, first, stranger), ERROR_DENIED);
    assert_int_equal(end_by(2, first, second), ERROR_NONE);
    assert_int_equal(sign_by(1, first, NULL),
                     ERROR_DENIED); /* what was withdrawn comes back neither with one, nor with its old number */
    assert_int_equal(sign_by(1, first, second), ERROR_DENIED);
    restart();
    open_officers();
    assert_int_equal(sign_by(1, first, second), ERROR_DENIED);
    assert_int_equal(sign_by(3, first, second), ERROR_NONE);
}

static void a_document_of_officers_says_how_many(void **state)
{
    const struct wanted lost = {
        .key = first, .signers = {approver, NULL, NULL}, .principal = ALICE, .withdrawn = "lost", .purpose = SIGNING_SIGN};

    (void)state;
    assert_int_equal(appoint_officer("security-officer.a", ALICE, first, 2), ERROR_NONE);
    assert_int_equal(appoint_officer("security-officer.b", BOB, second, 0), ERROR_NONE);
    assert_int_equal(sign_by(1, second, NULL), ERROR_DENIED);
    gives_points = false; /* what a gateway leaves out lowers nothing */
    assert_int_equal(sign_by(1, second, NULL), ERROR_DENIED);
    gives_points = true;
    assert_int_equal(enrol(&lost), ERROR_NONE);
    assert_int_equal(sign_by(1, second, NULL), ERROR_DENIED); /* nor what an officer does with its key */
    assert_int_equal(sign_by(1, first, second), ERROR_DENIED);
    assert_int_equal(appoint_officer("security-officer.a", ALICE, NULL, 0), ERROR_NONE);
    assert_int_equal(sign_by(1, second, NULL), ERROR_NONE);
}

/* A file that is lost or older makes nobody an officer; a document of officers that ends, or whose key is withdrawn, does not count. */
static void who_is_no_officer_any_more_signs_nothing(void **state)
{
    const struct wanted lost = {
        .key = second, .signers = {approver, NULL, NULL}, .principal = BOB, .withdrawn = "lost", .purpose = SIGNING_SIGN};

    (void)state;
    assert_int_equal(appoint_officer("security-officer.a", ALICE, first, 0), ERROR_NONE);
    assert_int_equal(appoint_officer("security-officer.b", BOB, second, 0), ERROR_NONE);
    assert_int_equal(enrol(&lost), ERROR_NONE);
    assert_int_equal(sign_by(1, second, NULL), ERROR_DENIED);
    assert_int_equal(appoint_officer("security-officer.a", ALICE, NULL, 0), ERROR_NONE);
    assert_int_equal(sign_by(1, first, NULL), ERROR_DENIED);
    assert_int_equal(appoint_officer("security-officer.a", ALICE, first, 0), ERROR_NONE);
    organisation_officers_free(officers);
    officers = NULL;
    assert_int_equal(unlinkat(world.folder.fd, ORGANISATION_OFFICERS_FILE, 0), 0);
    open_officers();
    assert_int_equal(sign_by(1, first, NULL), ERROR_DENIED);
    assert_int_equal(appoint_officer("security-officer.a", ALICE, first, 0), ERROR_NONE);
    assert_int_equal(sign_by(1, first, NULL), ERROR_NONE);
}

static size_t in_force(const char *organisation, uint8_t digest[DOCUMENT_DIGEST_SIZE])
{
    return organisation_restrictions_find(restrictions, organisation, (uint8_t(*)[DOCUMENT_DIGEST_SIZE])(uintptr_t)digest, 1);
}

/* Runs are decided with them, so keyd knows which ones there are: the newest version, until its end, and after a restart. */
static void which_are_in_force_is_kept(void **state)
{
    uint8_t one[DOCUMENT_DIGEST_SIZE] = {0}, other[DOCUMENT_DIGEST_SIZE] = {0};

    (void)state;
    assert_int_equal(appoint_officer("security-officer.a", ALICE, first, 0), ERROR_NONE);
    assert_int_equal(appoint_officer("security-officer.b", BOB, second, 0), ERROR_NONE);
    assert_int_equal(in_force("acme", one), 0);
    assert_int_equal(sign_by(1, stranger, NULL), ERROR_DENIED);
    assert_int_equal(in_force("acme", one), 0);
    assert_int_equal(sign_by(1, first, NULL), ERROR_NONE);
    assert_int_equal(in_force("acme", one), 1);
    assert_int_equal(in_force("beta", other), 0);
    assert_int_equal(sign_by(2, first, second), ERROR_NONE);
    assert_int_equal(in_force("acme", other), 1);
    assert_memory_not_equal(one, other, sizeof one);
    restart();
    open_officers();
    assert_int_equal(in_force("acme", one), 1);
    assert_memory_equal(one, other, sizeof one);
    assert_int_equal(end_by(3, first, NULL), ERROR_DENIED);
    assert_int_equal(in_force("acme", one), 1);
    assert_int_equal(end_by(3, first, second), ERROR_NONE);
    assert_int_equal(in_force("acme", one), 0);
    assert_int_equal(sign_by(4, first, second), ERROR_NONE);
    organisation_restrictions_free(restrictions);
    restrictions = NULL;
    assert_int_equal(unlinkat(world.folder.fd, ORGANISATION_RESTRICTIONS_FILE, 0), 0);
    open_officers();
    assert_int_equal(in_force("acme", one), 0); /* nobody knows them until they are signed anew */
    assert_int_equal(sign_by(5, first, second), ERROR_NONE);
    assert_int_equal(in_force("acme", one), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(officers_of_the_organisation_sign, begin_here, end_here),
        cmocka_unit_test_setup_teardown(a_later_version_and_the_end_take_one_more, begin_here, end_here),
        cmocka_unit_test_setup_teardown(a_document_of_officers_says_how_many, begin_here, end_here),
        cmocka_unit_test_setup_teardown(who_is_no_officer_any_more_signs_nothing, begin_here, end_here),
        cmocka_unit_test_setup_teardown(which_are_in_force_is_kept, begin_here, end_here),
    };

    return cmocka_run_group_tests_name("restrictions", tests, NULL, NULL);
}
