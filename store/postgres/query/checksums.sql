-- Report whether the server keeps checksums of its pages.
SELECT current_setting('data_checksums') = 'on'
