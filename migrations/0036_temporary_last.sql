-- A search_path without pg_temp is searched with pg_temp first: a session's temporary table would stand for a table of ours,
-- in functions that run as the owner and in triggers that keep rows (PostgreSQL, "Writing SECURITY DEFINER Functions Safely").
DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid::regprocedure FROM pg_proc p
         WHERE p.pronamespace = current_schema()::regnamespace
           AND p.proowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)
           AND (p.prosecdef OR p.prorettype = 'trigger'::regtype
                OR EXISTS (SELECT FROM unnest(p.proconfig) AS setting WHERE setting LIKE 'search\_path=%'))
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', function, current_schema());
    END LOOP;
END $$;
