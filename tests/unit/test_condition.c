/* If-Match and If-None-Match, compared with the present tag. */
#include "tests/support/unit.h"

#include "gateway/http/condition.h"
#include "gateway/pipeline/request.h"

static const struct condition_row {
    const char *name, *match, *none_match; /* NULL: the header is not there */
    const char *etag;                      /* NULL: nothing is there */
    enum condition condition;
} condition_rows[] = {
    {"neither", NULL, NULL, "\"a\"", CONDITIONS_HOLD},
    {"neither, nothing there", NULL, NULL, NULL, CONDITIONS_HOLD},
    {"the one", "\"a\"", NULL, "\"a\"", CONDITIONS_HOLD},
    {"another", "\"b\"", NULL, "\"a\"", CONDITION_NO_MATCH},
    {"the beginning of it", "\"a\"", NULL, "\"ab\"", CONDITION_NO_MATCH},
    {"more than it", "\"ab\"", NULL, "\"a\"", CONDITION_NO_MATCH},
    {"one of a list", "\"b\" ,\t,\"a\"", NULL, "\"a\"", CONDITIONS_HOLD},
    {"without a comma", "\"b\"\"a\"", NULL, "\"a\"", CONDITIONS_HOLD},
    {"inside another", "\"b,a\"", NULL, "\"a\"", CONDITION_NO_MATCH},
    {"without quotes", "a", NULL, "\"a\"", CONDITIONS_HOLD},
    {"without quotes, in a list", "b, a", NULL, "\"a\"", CONDITIONS_HOLD},
    {"a weak one, compared strongly", "W/\"a\"", NULL, "\"a\"", CONDITION_NO_MATCH},
    {"in capitals", "\"A\"", NULL, "\"a\"", CONDITION_NO_MATCH},
    {"no end", "\"a", NULL, "\"a\"", CONDITION_NO_MATCH},
    {"an empty header", "", NULL, "\"a\"", CONDITION_NO_MATCH},
    {"anything", "*", NULL, "\"a\"", CONDITIONS_HOLD},
    {"anything, nothing there", "*", NULL, NULL, CONDITION_NO_MATCH},
    {"one, nothing there", "\"a\"", NULL, NULL, CONDITION_NO_MATCH},
    {"a star in quotes", "\"*\"", NULL, "\"a\"", CONDITION_NO_MATCH},
    {"not the one", NULL, "\"a\"", "\"a\"", CONDITION_A_MATCH},
    {"not a weak one", NULL, "W/\"a\"", "\"a\"", CONDITION_A_MATCH},
    {"not one of a list", NULL, "\"c\", W/\"a\"", "\"a\"", CONDITION_A_MATCH},
    {"not another", NULL, "\"b\"", "\"a\"", CONDITIONS_HOLD},
    {"not anything", NULL, "*", "\"a\"", CONDITION_A_MATCH},
    {"not anything, nothing there", NULL, "*", NULL, CONDITIONS_HOLD},
    {"not the one, nothing there", NULL, "\"a\"", NULL, CONDITIONS_HOLD},
    {"both: the first decides", "\"b\"", "\"a\"", "\"a\"", CONDITION_NO_MATCH},
    {"both: then the second", "\"a\"", "\"a\"", "\"a\"", CONDITION_A_MATCH},
};

static void conditions_are_judged(void **state)
{
    const struct condition_row *row = *state;
    struct field list[] = {{"x", "y"}, {"x", "y"}};
    struct request request = {.headers = {.list = list, .count = 2}};

    if (row->match != NULL) list[0] = (struct field){"if-match", row->match};
    if (row->none_match != NULL) list[1] = (struct field){"IF-NONE-MATCH", row->none_match};
    assert_int_equal(condition_of_request(&request.headers, row->etag), row->condition);
}

static void lines_of_one_condition_are_one_list(void **state)
{
    struct field list[] = {{"If-Match", "\"b\""}, {"If-Match", "\"a\""}};
    const struct request request = {.headers = {.list = list, .count = 2}};

    (void)state;
    assert_int_equal(condition_of_request(&request.headers, "\"a\""), CONDITIONS_HOLD);
    assert_int_equal(condition_of_request(&request.headers, "\"c\""), CONDITION_NO_MATCH);
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(lines_of_one_condition_are_one_list)};

    return RUN_TABLE(condition_rows, conditions_are_judged) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
