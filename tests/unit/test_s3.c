/* The messages to and from an object store, without one: locations, answers, heads, keys. */
#include "tests/support/unit.h"

#include <string.h>

#include "storage/driver.h"
#include "storage/s3_http_priv.h"

/* ---- Answers ---- */

static const struct location_row {
    const char *name, *xml, *location; /* NULL: refused */
} location_rows[] = {
    {"as Amazon says it",
     "<?xml version=\"1.0\"?><LocationConstraint xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">me-central-1</LocationConstraint>",
     "me-central-1"},
    {"nothing is us-east-1", "<LocationConstraint/>", "us-east-1"},
    {"nothing, with an attribute", "<LocationConstraint xmlns=\"x\"></LocationConstraint>", "us-east-1"},
    {"EU is eu-west-1", "<LocationConstraint>EU</LocationConstraint>", "eu-west-1"},
    {"one within another", "<GetBucketLocationOutput><LocationConstraint>garage</LocationConstraint></GetBucketLocationOutput>",
     "garage"},
    {"a prefix of a namespace", "<s3:LocationConstraint xmlns:s3=\"x\">eu-west-2</s3:LocationConstraint>", "eu-west-2"},
    {"another answer", "<ListBucketResult><Name>eu-west-2</Name></ListBucketResult>", NULL},
    {"no XML", "me-central-1", NULL},
    {"nothing at all", "", NULL},
    {"cut", "<LocationConstraint>me-central-1</Locat", NULL},
    {"letters that no location has", "<LocationConstraint>me central\n1</LocationConstraint>", NULL},
    {"an entity of its own", "<!DOCTYPE a [<!ENTITY b \"me-central-1\">]><LocationConstraint>&b;</LocationConstraint>", NULL},
    {"a document type from elsewhere", "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><LocationConstraint>a</LocationConstraint>",
     NULL},
    {"too deep", "<a><a><a><a><a><a><a><a><LocationConstraint>a</LocationConstraint></a></a></a></a></a></a></a></a>", NULL},
    {"too long a name",
     "<a2345678901234567890123456789012345678901234567890123456789012345><LocationConstraint>a</LocationConstraint></a2345678901234567890123456789012345678901234567890123456789012345>",
     NULL},
    {"another encoding", "<?xml version=\"1.0\"?><LocationConstraint>\xff\xfe</LocationConstraint>", NULL},
};

static void reads_a_location(void **state)
{
    const struct location_row *row = *state;
    char location[S3_LOCATION_SIZE] = "untouched";
    struct error err = {0};

    const bool ok = s3_answer_location(bytes_of_text(row->xml), location, &err).ok;
    assert_int_equal(ok, row->location != NULL);
    assert_string_equal(location, row->location == NULL ? "untouched" : row->location);
    if (!ok) assert_int_equal(err.kind, ERROR_UNAVAILABLE);
}

static struct result count_listed(void *context, const struct s3_listed *listed, struct error *err)
{
    (void)err;
    *(uint64_t *)context += listed->size_bytes + 1000 * strlen(listed->key);
    return SUCCESS;
}

#define PAGE(inside) "<ListBucketResult xmlns=\"x\"><Name>b</Name><Prefix></Prefix>" inside "</ListBucketResult>"
#define OBJECT(key, size)                                                                                                    \
    "<Contents><Key>" key "</Key><LastModified>2026-11-20T10:39:46.123Z</LastModified><ETag>&quot;e&quot;</ETag><Size>" size \
    "</Size><Owner><ID>1</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>"
static const struct page_row {
    const char *name, *xml;
    uint64_t sum;
    const char *next; /* NULL: refused */
} page_rows[] = {
    {"none", PAGE("<IsTruncated>false</IsTruncated>"), 0, ""},
    {"two", PAGE("<IsTruncated>false</IsTruncated>" OBJECT("abc", "5") OBJECT("x&amp;y", "7")), 6012, ""},
    {"and more", PAGE("<IsTruncated>true</IsTruncated><NextContinuationToken>a+/=</NextContinuationToken>" OBJECT("a", "1")),
     1001, "a+/="},
    {"more, but not where", PAGE("<IsTruncated>true</IsTruncated>" OBJECT("a", "1")), 1001, NULL},
    {"a token that is not needed", PAGE("<IsTruncated>false</IsTruncated><NextContinuationToken>a</NextContinuationToken>"), 0,
     ""},
    {"without a size", PAGE("<Contents><Key>a</Key></Contents>"), 0, NULL},
    {"a size that is none", PAGE(OBJECT("a", "-1")), 0, NULL},
    {"a time of another form", PAGE("<Contents><Key>a</Key><LastModified>yesterday</LastModified><Size>1</Size></Contents>"), 0,
     NULL},
    {"another answer", "<Error><Code>AccessDenied</Code></Error>", 0, NULL},
};

static void reads_a_page(void **state)
{
    const struct page_row *row = *state;
    struct buffer OWNED_BUFFER next = BUFFER(S3_TEXT_SIZE);
    struct error err = {0};
    uint64_t sum = 0;

    assert_int_equal(s3_answer_page(bytes_of_text(row->xml), count_listed, &sum, &next, &err).ok, row->next != NULL);
    assert_int_equal(sum, row->sum);
    if (row->next != NULL) assert_string_equal(buffer_text(&next), row->next);
}

#define RULE(inside)       "<Rule>" inside "</Rule>"
#define LIFECYCLE(rules)   "<LifecycleConfiguration xmlns=\"x\">" rules "</LifecycleConfiguration>"
#define REPLICATION(rules) "<ReplicationConfiguration xmlns=\"x\"><Role>r</Role>" rules "</ReplicationConfiguration>"
#define ENABLED            "<Status>Enabled</Status>"
static const struct rules_row {
    const char *name, *xml, *what; /* of a rule on "models/"; "": none; NULL: refused */
} rules_rows[] = {
    {"objects are removed",
     LIFECYCLE(RULE(ENABLED "<Filter><Prefix>models/</Prefix></Filter><Expiration><Days>30</Days></Expiration>")),
     "objects are removed"},
    {"of the whole bucket, in the old form",
     LIFECYCLE(RULE("<Prefix></Prefix><Expiration><Date>2027-01-01T00:00:00Z</Date></Expiration>" ENABLED)),
     "objects are removed"},
    {"below our prefix",
     LIFECYCLE(RULE("<Filter><And><Prefix>models/a</Prefix></And></Filter><Expiration><Days>1</Days></Expiration>" ENABLED)),
     "objects are removed"},
    {"objects are moved", LIFECYCLE(RULE(ENABLED "<Transition><Days>9</Days><StorageClass>GLACIER</StorageClass></Transition>")),
     "objects are moved to another class"},
    {"other objects", LIFECYCLE(RULE(ENABLED "<Filter><Prefix>logs/</Prefix></Filter><Expiration><Days>30</Days></Expiration>")),
     ""},
    {"a rule that is off", LIFECYCLE(RULE("<Status>Disabled</Status><Expiration><Days>30</Days></Expiration>")), ""},
    {"incomplete uploads alone",
     LIFECYCLE(
         RULE(ENABLED
              "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>")),
     ""},
    {"markers of removed objects",
     LIFECYCLE(RULE(ENABLED "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>")), ""},
    {"the second rule",
     LIFECYCLE(RULE("<Status>Disabled</Status><Expiration><Days>1</Days></Expiration>")
                   RULE(ENABLED "<Expiration><Days>2</Days></Expiration>")),
     "objects are removed"},
    {"copies", REPLICATION(RULE(ENABLED "<Destination><Bucket>arn:aws:s3:::elsewhere</Bucket></Destination>")),
     "to arn:aws:s3:::elsewhere"},
    {"copies of others", REPLICATION(RULE(ENABLED "<Prefix>logs/</Prefix><Destination><Bucket>b</Bucket></Destination>")), ""},
    {"copies that are off", REPLICATION(RULE("<Status>Disabled</Status><Destination><Bucket>b</Bucket></Destination>")), ""},
    {"versions", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>", "older versions are kept"},
    {"versions no more", "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>", ""},
    {"never versions", "<VersioningConfiguration/>", ""},
    {"another answer", "<ListBucketResult><Name>b</Name></ListBucketResult>", NULL},
    {"no XML", "rules", NULL},
};

static void reads_rules(void **state)
{
    const struct rules_row *row = *state;
    struct driver_rules rules = {.told = RULES_NOT_TOLD, .what = "untouched"};
    struct error err = {0};

    assert_int_equal(s3_answer_rules(bytes_of_text(row->xml), "models/", &rules, &err).ok, row->what != NULL);
    if (row->what == NULL) assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    else assert_int_equal(rules.told, row->what[0] == '\0' ? RULES_NONE : RULES_SOME);
    assert_string_equal(rules.what, row->what == NULL ? "untouched" : row->what);
}

static void reads_short_answers(void **state)
{
    struct buffer OWNED_BUFFER id = BUFFER(S3_TEXT_SIZE);
    struct s3_error error_body = {"x", "y"};
    struct error err = {0};

    (void)state;
    assert_true(
        s3_answer_upload_id(
            bytes_of_text(
                "<InitiateMultipartUploadResult><Bucket>b</Bucket><UploadId>a/b+c</UploadId></InitiateMultipartUploadResult>"),
            &id, &err)
            .ok);
    assert_string_equal(buffer_text(&id), "a/b+c");
    assert_false(s3_answer_upload_id(bytes_of_text("<InitiateMultipartUploadResult/>"), &id, &err).ok);
    assert_true(s3_answer_completed(
                    bytes_of_text("  <CompleteMultipartUploadResult><Key>a</Key></CompleteMultipartUploadResult>\n"), &err)
                    .ok);
    assert_false(s3_answer_completed(bytes_of_text("<Error><Code>InternalError</Code></Error>"), &err).ok);
    assert_false(s3_answer_completed(bytes_of_text(""), &err).ok);
    s3_answer_error(
        bytes_of_text(
            "<Error><Code>Slow\"Down</Code><Message>Please \\ wait&#10;</Message><Nested><Code>no</Code></Nested></Error>"),
        &error_body);
    assert_string_equal(error_body.code, "SlowDown");
    assert_string_equal(error_body.message, "Please  wait");
    s3_answer_error(bytes_of_text("<html>502"), &error_body);
    assert_string_equal(error_body.code, "");
}

static struct result read_any(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER next = BUFFER(S3_TEXT_SIZE);
    uint64_t sum = 0;

    return s3_answer_page(bytes_of_text(context), count_listed, &sum, &next, err);
}

static void an_answer_may_lack_memory(void **state)
{
    (void)state;
    fail_each(read_any, (void *)(uintptr_t)page_rows[2].xml, ERROR_NO_MEMORY, 5);
}

/* ---- Heads ---- */

static const struct head_row {
    const char *name, *line, *etag;
    uint64_t whole;
} head_rows[] = {
    {"an etag", "ETag: \"9b2cf535f27731c974343645a3985328\"\r\n", "9b2cf535f27731c974343645a3985328", 0},
    {"of several parts", "etag:\"abc-12\"\r\n", "abc-12", 0},
    {"without quotes", "ETag: abc\r\n", "abc", 0},
    {"that would break XML", "ETag: \"a<b\"\r\n", "", 0},
    {"a weak one", "ETag: W/\"abc\"\r\n", "", 0},
    {"a range", "Content-Range: bytes 0-99/1234\r\n", "", 1234},
    {"a range without a whole", "Content-Range: bytes 0-99/*\r\n", "", 0},
    {"a range of nonsense", "Content-Range: bytes\r\n", "", 0},
    {"another field", "X-ETag: \"abc\"\r\n", "", 0},
    {"no field", "\r\n", "", 0},
};

static void reads_a_line(void **state)
{
    const struct head_row *row = *state;
    struct s3_answer answer = S3_ANSWER(1);

    s3_head_line(&answer, bytes_of_text(row->line));
    assert_string_equal(answer.etag, row->etag);
    assert_int_equal(answer.whole_bytes, row->whole);
}

/* ---- Keys ---- */

static const struct key_row {
    const char *name, *text, *id, *secret; /* id NULL: refused */
} key_rows[] = {
    {"two lines", "AKIA\nse+cr/et\n", "AKIA", "AWS4se+cr/et"},
    {"no last end of line", "AKIA\nsecret", "AKIA", "AWS4secret"},
    {"from Windows", "AKIA\r\nsecret\r\n", "AKIA", "AWS4secret"},
    {"more lines", "AKIA\nsecret\ncomment\n", "AKIA", "AWS4secret"},
    {"one line", "AKIA\n", NULL, NULL},
    {"nothing", "", NULL, NULL},
    {"a blank inside", "AK IA\nsecret\n", NULL, NULL},
    {"an id that ends its scope", "AK/IA\nsecret\n", NULL, NULL},
};

static void reads_a_key(void **state)
{
    const struct key_row *row = *state;
    struct s3_key key = {.secret = NULL};
    struct error err = {0};

    assert_int_equal(s3_key_parse(bytes_of_text(row->text), &key, &err).ok, row->id != NULL);
    if (row->id == NULL) {
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_null(strstr(err.message, "secret\n"));
        return;
    }
    assert_string_equal(key.id, row->id);
    assert_true(bytes_equal(secret_bytes(key.secret), bytes_of_text(row->secret)));
    secret_free(key.secret);
}

static const struct no_network_row {
    const char *name, *text;
} no_network_rows[] = {
    {"no prefix", "10.0.0.0"},
    {"no address", "/8"},
    {"a name", "store.example/32"},
    {"too long a prefix", "10.0.0.0/33"},
    {"too long for IPv6", "::/129"},
    {"no number", "10.0.0.0/x"},
    {"bits behind", "10.0.0.1/8"},
    {"bits behind IPv6", "2001:db8::1/64"},
    {"three parts", "10.0.0/8"},
    {"much", "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb/64"},
    {"the second", "10.0.0.0/8, x"},
    {"seventeen",
     "1.0.0.0/8 2.0.0.0/8 3.0.0.0/8 4.0.0.0/8 5.0.0.0/8 6.0.0.0/8 7.0.0.0/8 8.0.0.0/8 9.0.0.0/8 10.0.0.0/8 11.0.0.0/8 "
     "12.0.0.0/8 13.0.0.0/8 14.0.0.0/8 15.0.0.0/8 16.0.0.0/8 17.0.0.0/8"},
};

static void what_is_no_network_is_said(void **state)
{
    const struct no_network_row *row = *state;
    const struct s3_options options = {.endpoint = "https://s3.example",
                                       .bucket = "models",
                                       .location = "me-test-1",
                                       .access_key_file = "key",
                                       .ca_file = "",
                                       .networks = row->text};
    struct error err = {0};

    assert_false(s3_check_options(&options, &err).ok);
    assert_non_null(strstr(err.message, "endpoint_networks: "));
}

/* For any random number; and each wait up to the bound is equally likely. */
static void pauses_are_of_any_length_up_to_a_bound_that_doubles(void **state)
{
    static const uint64_t bounds[] = {100, 200, 400, 800, 1600, 3200, S3_PAUSE_MAX_MS, S3_PAUSE_MAX_MS};

    (void)state;
    for (unsigned number = 0; number < sizeof bounds / sizeof bounds[0]; number++) {
        for (uint64_t drawn = 0; drawn <= bounds[number]; drawn++) assert_int_equal(s3_pause_ms(100, number, drawn), drawn);
        assert_int_equal(s3_pause_ms(100, number, bounds[number] + 1), 0);
    }
    assert_true(s3_pause_ms(UINT32_MAX, UINT32_MAX, UINT64_MAX) <= S3_PAUSE_MAX_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_short_answers),
        cmocka_unit_test(an_answer_may_lack_memory),
        cmocka_unit_test(pauses_are_of_any_length_up_to_a_bound_that_doubles),
    };

    return RUN_TABLE(location_rows, reads_a_location) + RUN_TABLE(page_rows, reads_a_page) + RUN_TABLE(rules_rows, reads_rules) +
           RUN_TABLE(head_rows, reads_a_line) + RUN_TABLE(key_rows, reads_a_key) +
           RUN_TABLE(no_network_rows, what_is_no_network_is_said) + cmocka_run_group_tests(tests, NULL, NULL);
}
